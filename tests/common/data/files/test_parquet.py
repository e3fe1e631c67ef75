"""Parquet as on the hub, and parquet of one's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedmirage.common.data.loading import load
from fedmirage.common.errors import DataError
from tests.support.files import labels, pictures, png, write_parquet

LABEL = {"label": {"names": [f"class {n}" for n in range(10)], "_type": "ClassLabel"}}


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("cifar10/train.parquet", "cifar10/test.parquet"),
        ("cifar10/data/train-00000-of-00001.parquet", "cifar10/data/test-00000-of-00001.parquet"),
        ("cifar-10/plain_text-train.parquet", "cifar-10/plain_text-test.parquet"),
        ("cifar10/default/train/0000.parquet", "cifar10/default/test/0000.parquet"),
    ],
)
def test_the_layouts_of_the_hub(data: Path, train: str, test: str) -> None:
    images = pictures(20, 32, 32, 3)
    for file in (train, test):
        write_parquet(data / file, images, {"label": labels(20)}, image="img", features=LABEL)
    loaded = load("cifar10", data)
    assert np.array_equal(loaded.train.images, images.transpose(0, 3, 1, 2))
    assert np.array_equal(loaded.test.labels, labels(20))
    assert loaded.classes[0] == "airplane"  # the published name, not what a file calls it


def test_shards_are_read_in_order(data: Path) -> None:
    images = pictures(30, 28, 28)
    for shard in range(3):
        part = slice(10 * shard, 10 * shard + 10)
        write_parquet(
            data / f"mnist/train-0000{shard}-of-00003.parquet", images[part], {"label": labels(10)}
        )
    write_parquet(data / "mnist/test-00000-of-00001.parquet", images, {"label": labels(30)})
    assert np.array_equal(load("mnist", data).train.images[:, 0], images)


def test_cifar100_takes_the_fine_label_and_the_names_of_the_files(data: Path) -> None:
    columns = {"coarse_label": np.zeros(100, int), "fine_label": np.arange(100)}
    features = {"fine_label": {"names": [f"kind {n}" for n in range(100)], "_type": "ClassLabel"}}
    for split in ("train", "test"):
        write_parquet(
            data / f"cifar100/{split}.parquet", pictures(100, 32, 32, 3), columns, "img", features
        )
    loaded = load("cifar100", data)
    assert loaded.train.labels.tolist() == list(range(100))
    assert loaded.classes[99] == "kind 99"


def test_svhn_of_the_hub_lies_in_a_subset(data: Path) -> None:
    for split in ("train", "test"):
        write_parquet(
            data / f"svhn/cropped_digits/{split}-00000-of-00001.parquet",
            pictures(10, 32, 32, 3),
            {"label": labels(10)},
        )
    assert len(load("svhn", data).train) == 10


def test_tiny_imagenet_of_the_hub_is_tested_on_valid(data: Path) -> None:
    write_parquet(
        data / "tiny-imagenet/data/train-00000-of-00001-135.parquet",
        pictures(200, 64, 64, 3),
        {"label": np.arange(200)},
    )
    write_parquet(
        data / "tiny-imagenet/data/valid-00000-of-00001-70d.parquet",
        pictures(5, 64, 64, 3),
        {"label": np.arange(5)},
    )
    loaded = load("tiny-imagenet", data)
    assert (len(loaded.train), len(loaded.test), len(loaded.classes)) == (200, 5, 200)


def test_emnist_of_the_hub_is_transposed_too(data: Path) -> None:
    images = pictures(26, 28, 28)
    for split in ("train", "test"):
        write_parquet(
            data / f"emnist/letters/{split}.parquet",
            images.transpose(0, 2, 1),
            {"label": np.arange(26)},
        )
    assert np.array_equal(load("emnist(split='letters')", data).train.images[:, 0], images)


def own(
    data: Path, label: Any, line: str = "parquet(path='own.parquet')", count: int = 20, **extra: Any
):
    write_parquet(data / "own.parquet", pictures(count, 12, 12), {"label": label, **extra})
    return load(line, data)


def test_one_file_of_ones_own_is_split(data: Path) -> None:
    loaded = own(data, labels(40, 4), count=40)
    assert (len(loaded.train), len(loaded.test)) == (32, 8)
    assert np.bincount(loaded.test.labels).tolist() == [2, 2, 2, 2]
    assert loaded.classes == ("0", "1", "2", "3")
    assert loaded.mean == loaded.std == (0.5,)
    everything = [
        image.tobytes() for split in (loaded.train, loaded.test) for image in split.images
    ]
    assert sorted(everything) == sorted(image.tobytes() for image in pictures(40, 12, 12))


def test_a_folder_with_both_splits(data: Path) -> None:
    write_parquet(
        data / "mine/train.parquet",
        pictures(20, 12, 12),
        {"tag": labels(20), "user": ["b", "a"] * 10},
        "photo",
    )
    write_parquet(
        data / "mine/test.parquet",
        pictures(10, 12, 12),
        {"tag": labels(10), "user": ["c"] * 10},
        "photo",
    )
    loaded = load("parquet(path='mine', image='photo', label='tag', columns=('user',))", data)
    assert (len(loaded.train), len(loaded.test)) == (20, 10)
    assert loaded.train.columns["user"].tolist() == [1, 0] * 10
    assert set(loaded.test.columns["user"].tolist()) == {2}


def test_columns_stay_with_their_samples_when_a_share_is_held_out(data: Path) -> None:
    loaded = own(
        data, labels(20, 2), "parquet(path='own.parquet', columns=('row',))", row=np.arange(20)
    )
    original = pictures(20, 12, 12)
    for split in (loaded.train, loaded.test):
        assert np.array_equal(split.images[:, 0], original[split.columns["row"]])


def test_names_as_labels(data: Path) -> None:
    loaded = own(data, ["dog", "cat"] * 10)
    assert loaded.classes == ("cat", "dog")
    named = load("parquet(path='own.parquet', classes=('mouse', 'dog', 'cat'), test_share=0)", data)
    assert named.train.labels.tolist() == [1, 2] * 10
    assert len(named.test) == 0
    with pytest.raises(DataError, match="'cat' is none of the classes dog, mouse"):
        load("parquet(path='own.parquet', classes=('dog', 'mouse'))", data)


@pytest.mark.parametrize(
    ("label", "expected", "classes"),
    [
        ([[0, 2], [], [1]] * 10, [[1, 0, 1], [0, 0, 0], [0, 1, 0]] * 10, ("0", "1", "2")),
        (
            [[0, 1, 1], [0, 0, 0], [1, 0, 0]] * 10,
            [[0, 1, 1], [0, 0, 0], [1, 0, 0]] * 10,
            ("0", "1", "2"),
        ),
        ([["b", "c"], ["a"], []] * 10, [[0, 1, 1], [1, 0, 0], [0, 0, 0]] * 10, ("a", "b", "c")),
    ],
    ids=["class numbers", "0 and 1", "names"],
)
def test_lists_are_several_labels(
    data: Path, label: list[Any], expected: list[Any], classes: tuple[str, ...]
) -> None:
    loaded = own(data, label, "parquet(path='own.parquet', test_share=0)", count=30)
    assert loaded.task == "multi-label"
    assert loaded.train.labels.tolist() == expected
    assert loaded.train.labels.dtype == np.uint8
    assert loaded.classes == classes
    assert len(load("parquet(path='own.parquet')", data).test) == 6


def test_lists_of_declared_classes_are_class_numbers(data: Path) -> None:
    """[0, 1] says 'a and b' where the file declares its classes, not 'not a, but b'."""
    features = {"label": {"feature": {"names": ["a", "b"], "_type": "ClassLabel"}, "_type": "List"}}
    write_parquet(
        data / "own.parquet",
        pictures(4, 12, 12),
        {"label": [[0, 1], [1, 0]] * 2},
        features=features,
    )
    loaded = load("parquet(path='own.parquet', test_share=0)", data)
    assert loaded.train.labels.tolist() == [[1, 1]] * 4
    assert loaded.classes == ("a", "b")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (labels(20) - 1, "label -1 is out of range"),
        (labels(20) / 2, "float64, not whole numbers"),
        (labels(20) * 1000, "number the classes from 0"),
        ([None, *range(19)], "values of 'label' are missing"),
        (np.zeros(20, int), "only one class"),
        ([[0.5]] * 20, "must hold names, class numbers"),
    ],
)
def test_bad_labels(data: Path, label: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        own(data, label)


def test_a_number_of_classes_makes_nodes_count_alike(data: Path) -> None:
    assert len(own(data, labels(20, 4), "parquet(path='own.parquet', classes=10)").classes) == 10
    with pytest.raises(DataError, match="label 3 is out of range: there are 3 classes"):
        load("parquet(path='own.parquet', classes=3)", data)


def test_missing_columns_are_named_with_those_that_are_there(data: Path) -> None:
    write_parquet(data / "own.parquet", pictures(20, 12, 12), {"kind": labels(20)}, image="photo")
    with pytest.raises(
        DataError, match=r"no column 'image' or 'img', only photo, kind; write image="
    ):
        load("parquet(path='own.parquet')", data)
    with pytest.raises(DataError, match="no column 'user'"):
        load("parquet(path='own.parquet', image='photo', label='kind', columns=('user',))", data)


def test_pictures_that_are_no_pictures(data: Path) -> None:
    pq.write_table(
        pa.table({"image": [b"rubbish"] * 20, "label": labels(20)}), data / "own.parquet"
    )
    with pytest.raises(DataError, match="row 0 is not a readable picture"):
        load("parquet(path='own.parquet')", data)
    mixed = [b"rubbish", *(png(one) for one in pictures(19, 12, 12))]
    pq.write_table(pa.table({"image": mixed, "label": labels(20)}), data / "own.parquet")
    left = load("parquet(path='own.parquet', skip=True, test_share=0)", data)
    assert (left.skipped, left.train.labels.tolist()) == (1, labels(20)[1:].tolist())
    pq.write_table(pa.table({"image": [[1, 2]] * 20, "label": labels(20)}), data / "own.parquet")
    with pytest.raises(DataError, match="not encoded pictures"):
        load("parquet(path='own.parquet')", data)
    path_only = pa.array(
        [{"bytes": None, "path": "a.png"}] * 20,
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    pq.write_table(pa.table({"image": path_only, "label": labels(20)}), data / "own.parquet")
    with pytest.raises(DataError, match="store its bytes"):
        load("parquet(path='own.parquet')", data)


@pytest.mark.parametrize("keep", [0, 100, -20])
def test_damaged_files(data: Path, keep: int) -> None:
    write_parquet(data / "own.parquet", pictures(20, 12, 12), {"label": labels(20)})
    file = data / "own.parquet"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"own.parquet is damaged or is not a parquet file"):
        load("parquet(path='own.parquet')", data)


def test_no_rows(data: Path) -> None:
    with pytest.raises(DataError, match="no training sample"):
        own(data, pa.array([], pa.int64()), count=0)
