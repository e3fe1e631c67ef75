"""The metrics of heterogeneity against numbers worked out by hand, and that tables and pictures
come out of any partition."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from fedmirage.common.data.heterogeneity import class_table, gini, heterogeneity
from fedmirage.common.data.partitions.named import split
from fedmirage.common.data.set import DataSet, Split
from fedmirage.show.partition import _caption, measure, report, show_classes, show_heterogeneity


def test_equal_clients_are_not_heterogeneous() -> None:
    found = heterogeneity(np.full((4, 5), 7))
    assert (found.clients, found.samples, found.size_deviation, found.size_gini) == (
        4,
        140,
        0.0,
        0.0,
    )
    assert found.classes_held.mean == 5
    assert found.effective_classes.mean == pytest.approx(5)
    for distance in (
        found.kullback_leibler,
        found.jensen_shannon,
        found.total_variation,
        found.hellinger,
        found.earth_mover,
    ):
        assert distance.maximum == pytest.approx(0, abs=1e-12)


def test_one_class_a_client() -> None:
    """Two clients, two classes, one each: p = (1, 0) against q = (1/2, 1/2).

    KL = log 2. JS: m = (3/4, 1/4), (log 4/3 + (log 2/3 + log 2) / 2) / 2. TV = 1/2. Hellinger =
    sqrt(1 - sqrt(1/2)). L1 = 1.
    """
    found = heterogeneity(np.array([[10, 0], [0, 10]]))
    assert found.kullback_leibler.mean == pytest.approx(math.log(2))
    assert found.jensen_shannon.mean == pytest.approx(
        (math.log(4 / 3) + (math.log(2 / 3) + math.log(2)) / 2) / 2
    )
    assert found.total_variation.mean == pytest.approx(0.5)
    assert found.hellinger.mean == pytest.approx(math.sqrt(1 - math.sqrt(0.5)))
    assert found.earth_mover.maximum == pytest.approx(1.0)
    assert found.effective_classes.maximum == pytest.approx(1.0)
    assert found.classes_held.mean == 1


def test_numbers_of_samples_are_written_out() -> None:
    console = Console(width=100)
    with console.capture() as shown:
        console.print(show_heterogeneity(heterogeneity(np.array([[10220, 0], [0, 20440]]))))
    row = next(line for line in shown.get().splitlines() if "samples per client" in line)
    assert row.split()[-3:] == ["10220", "15330", "20440"]


def test_sizes() -> None:
    """Sizes 1 and 3: mean difference of two drawn clients 1, over twice the mean 2, is 1/4."""
    assert gini(np.array([3, 1])) == pytest.approx(0.25)
    found = heterogeneity(np.array([[1, 0], [1, 2]]))
    assert (found.sizes.minimum, found.sizes.mean, found.sizes.maximum, found.size_deviation) == (
        1,
        2,
        3,
        1,
    )


def test_a_client_without_labels_is_left_out_of_the_distances() -> None:
    found = heterogeneity(np.array([[0, 0], [3, 3]]), sizes=[2, 4])
    assert found.samples == 6
    assert found.total_variation.maximum == pytest.approx(0)


def make_dataset(classes: int, channels: int = 1, several: bool = False) -> DataSet:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (1200, channels, 8, 8)).astype(np.uint8)
    labels = (
        generator.integers(0, 2, (1200, classes)).astype(np.uint8)
        if several
        else np.arange(1200) % classes
    )
    whole = Split(images, labels)
    task = "multi-label" if several else "single-label"
    names = tuple(f"a long name {label}" for label in range(classes))
    return DataSet("random", whole, whole, names, task, (0.5,) * channels, (0.2,) * channels, "-")


@pytest.mark.parametrize(
    ("classes", "channels", "several", "line", "clients"),
    [
        (10, 1, False, "classes(per_client=2)", 3),
        (100, 3, False, "dirichlet(alpha=1, min_size=1)", 30),
        (4, 2, True, "iid", 1),
        (10, 1, False, "draw(per_client=20)", 300),
    ],
)
def test_tables_and_pictures(
    tmp_path: Path, classes: int, channels: int, several: bool, line: str, clients: int
) -> None:
    dataset = make_dataset(classes, channels, several)
    parts = split(line, dataset.train, classes, clients, 0)
    paths = report(dataset, parts, tmp_path / "new")
    assert [path.name for path in paths] == ["clients-by-classes.png", "pixels-by-client.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert min(picture.size) > 200
    console = Console(width=80)
    with console.capture() as captured:
        console.print(show_classes(dataset, parts), show_heterogeneity(measure(dataset, parts)))
    text = captured.get()
    assert "samples of each class" in text
    assert "Hellinger" in text
    assert "…" not in text  # nothing is cut off in a terminal of 80 columns
    assert ("480 training samples belong to no client" in text) == (clients == 3)
    assert ("belong to several clients, one to" in text) == (clients == 300)


def test_the_table_counts_labels() -> None:
    dataset = make_dataset(4, several=True)
    parts = [np.arange(100), np.arange(100, 300)]
    assert np.array_equal(
        class_table(dataset.train, parts, 4)[1],
        dataset.train.labels[100:300].astype(int).sum(axis=0),
    )


def test_a_client_with_one_domain_shows_its_name() -> None:
    images, domain = np.zeros((4, 1, 2, 2), np.uint8), np.array([0, 0, 1, 1])
    split = Split(images, np.zeros(4, np.int64), {"domain": domain})
    made = DataSet(
        "x", split, split, ("a",), "single-label", (0.5,), (0.5,), "", domains=("p", "q")
    )
    assert _caption(made, 3, np.array([2, 3])) == "client 3: 2 samples, q"
    assert _caption(made, 0, np.array([1, 2])) == "client 0: 2 samples"
