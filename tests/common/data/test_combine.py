"""Several names in one line, and what is told about a set."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data.files import genuine
from fedmirage.common.data.files.genuine import IDX_NAMES
from fedmirage.common.data.loading import list_available, load
from fedmirage.common.errors import ConfigurationError
from tests.support.files import labels, pictures, png, write_files, write_idx, write_parquet


@pytest.fixture
def sources(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(genuine, "DEBIAN_FASHION_MNIST", data / "nowhere")
    write_idx(data / "mnist", pictures(30, 28, 28, seed=1), labels(30), IDX_NAMES)
    for split in ("train", "test"):
        write_parquet(
            data / f"usps/{split}.parquet", pictures(20, 16, 16, seed=2), {"label": labels(20)}
        )
        write_parquet(
            data / f"cifar10/{split}.parquet",
            pictures(10, 32, 32, 3, seed=3),
            {"label": labels(10)},
            "img",
        )
    return data


def test_sources_are_numbered_in_the_order_of_the_line(sources: Path) -> None:
    line = "usps(size=28), mnist"
    both, usps, mnist = load(line, sources), load("usps(size=28)", sources), load("mnist", sources)
    assert both.train.columns["domain"].tolist() == [0] * 20 + [1] * 30
    assert np.array_equal(
        both.train.images, np.concatenate([usps.train.images, mnist.train.images])
    )
    assert np.array_equal(both.test.labels, np.concatenate([usps.test.labels, mnist.test.labels]))
    assert both.name == line
    assert both.domains == ("usps", "mnist")
    assert both.mean == both.std == (0.5,)
    assert len({both.fingerprint, usps.fingerprint, mnist.fingerprint}) == 3
    assert isinstance(load(line, sources).train.images.base, np.memmap)
    assert load("mnist", sources).train.columns == {}


def test_a_normalisation_that_agrees_is_kept(sources: Path) -> None:
    assert load("usps(size=28, mean=0.1, std=0.3), mnist(mean=0.1, std=0.3)", sources).mean == (
        0.1,
    )


def test_what_differs_is_told_with_the_key_that_mends_it(sources: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load("mnist, usps, cifar10, digits-multi(train=20, test=10)", sources)
    problems = caught.value.problems
    assert len(problems) == 4
    assert "mnist and usps" in problems[0]
    assert "size=28" in problems[0]
    assert "1 and 3 channels; write channels=" in problems[1]
    assert "28x28 and 32x32" in problems[2]
    assert "single-label and multi-label" in problems[3]


def test_class_counts_must_agree(sources: Path) -> None:
    np.savez(sources / "own.npz", images=pictures(40, 28, 28), labels=labels(40, 4))
    with pytest.raises(ConfigurationError, match="10 and 4 classes"):
        load("mnist, npz(path='own.npz')", sources)


def folders(data: Path, name: str, *kinds: str) -> str:
    files = {
        f"{kind}/{n}.png": png(np.full((8, 8), n, np.uint8)) for kind in kinds for n in range(5)
    }
    write_files(data / name, files)
    return f"imagefolder(path='{name}')"


def test_folders_of_other_names_are_not_one_set(data: Path) -> None:
    one = folders(data, "one", "Tshirt", "bag", "sandal", "trouser")
    other = folders(data, "other", "bag", "sandal", "trouser", "tshirt")
    with pytest.raises(
        ConfigurationError,
        match=r"class 0 is 'Tshirt' in the one and 'bag' in the other; .* upper and lower case",
    ):
        load(f"{one}, {other}", data)
    apart = folders(data, "apart", "bag", "coat", "sandal", "trouser")
    with pytest.raises(
        ConfigurationError, match=r"class 1 is 'sandal' .* give the classes the same"
    ):
        load(f"{other}, {apart}", data)
    same = folders(data, "same", "Tshirt", "bag", "sandal", "trouser")
    both = load(f"{one}, {same}", data)
    assert both.domains == ("one", "same")
    assert load(f"{one}, {one}", data).domains == (one, one)


def test_names_in_another_order_and_sets_without_names(data: Path) -> None:
    for name in ("a", "b", "c"):
        np.savez(data / f"{name}.npz", images=pictures(20, 8, 8), labels=labels(20, 2))
    named = "npz(path='a.npz', classes=('cat', 'dog'))"
    with pytest.raises(ConfigurationError, match="in another order: write classes="):
        load(f"{named}, npz(path='b.npz', classes=('dog', 'cat'))", data)
    both = load(f"npz(path='b.npz'), {named}, npz(path='c.npz')", data)  # nothing to compare with
    assert both.classes == ("cat", "dog")
    line = "npz(path='b.npz'), npz(path='a.npz', classes=('x', 'y')), npz(path='c.npz'"
    with pytest.raises(ConfigurationError, match=r"a\.npz.*c\.npz.*class 1 is 'y' .* and 'z'"):
        load(f"{line}, classes=('x', 'z'))", data)


def test_a_published_set_beside_folders_compares_names_too(sources: Path) -> None:
    words = ("eight", "five", "four", "nine", "one", "seven", "six", "three", "two", "zero")
    line = folders(sources, "words", *words).replace(")", ", size=28)")
    with pytest.raises(ConfigurationError, match="class 0 is '0' in the one and 'eight'"):
        load(f"mnist, {line}", sources)
    line = folders(sources, "numbers", *"0123456789").replace(")", ", size=28)")
    assert load(f"mnist, {line}", sources).domains == ("mnist", "imagefolder")


def test_columns_of_two_sources_share_no_number(data: Path) -> None:
    for name in ("a", "b"):
        images, users = pictures(20, 8, 8, seed=ord(name)), labels(20, 3)
        np.savez(data / f"{name}.npz", images=images, labels=labels(20, 2), user=users)
    line = ", ".join(f"npz(path='{name}.npz', columns=('user',), test_share=0)" for name in "ab")
    both = load(line, data)
    assert both.train.columns["user"].tolist() == [*labels(20, 3), *(labels(20, 3) + 3)]
    assert both.train.columns["domain"].tolist() == [0] * 20 + [1] * 20


def test_what_is_available(sources: Path) -> None:
    found = list_available(sources)
    assert found["digits"] == found["digits-multi"] == "embedded"
    assert found["mnist"] == str(sources / "mnist")
    assert found["svhn"] is None
    assert "npz" not in found


SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.mark.skipif(
    not (SHARED / "mnist" / "test.parquet").exists(),
    reason="the whole of MNIST is not on this machine",
)
def test_real_pictures_of_the_hub(data: Path) -> None:
    for split in ("train", "test"):  # the smaller file as both: fast
        (data / "mnist").mkdir(exist_ok=True)
        (data / "mnist" / f"{split}.parquet").symlink_to(SHARED / "mnist" / "test.parquet")
    found = load("mnist", data)
    assert len(found.test) == 10_000
    pixels = found.train.images / np.float32(255)
    assert pixels.mean() == pytest.approx(found.mean[0], abs=0.01)
    assert pixels.std() == pytest.approx(found.std[0], abs=0.01)
