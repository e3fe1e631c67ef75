"""The files that the authors of the published sets distribute: small, but in their exact format."""

import bz2
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from fedmirage.common.data.files import genuine
from fedmirage.common.data.loading import load
from fedmirage.common.errors import DataError
from tests.support.files import (
    labels,
    pictures,
    png,
    python2_pickle,
    write_files,
    write_idx,
    write_tar,
)

MNIST = genuine.IDX_NAMES


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("mnist", "mnist/MNIST/raw"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_idx(data: Path, line: str, folder: str, compress: bool) -> None:
    images = pictures(30, 28, 28)
    write_idx(data / folder, images, labels(30), MNIST, compress)
    loaded = load(line, data)
    assert np.array_equal(loaded.train.images[:, 0], images)
    assert np.array_equal(loaded.test.labels, labels(30))
    assert len(loaded.classes) == 10


def test_fashion_mnist_of_debian_is_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = data.parent / "debian"
    write_idx(place, pictures(30, 28, 28), labels(30), MNIST, compress=True)
    monkeypatch.setattr(genuine, "DEBIAN_FASHION_MNIST", place)
    loaded = load("fashion-mnist", data)
    assert loaded.classes[9] == "ankle boot"
    assert loaded.mean == (0.5,)


def emnist_names(split: str) -> list[str]:
    return [
        f"emnist-{split}-{part}-{kind}-ubyte"
        for part in ("train", "test")
        for kind in ("images-idx3", "labels-idx1")
    ]


def test_emnist_is_turned_upright(data: Path) -> None:
    images = pictures(20, 28, 28)
    write_idx(
        data / "emnist",
        images.transpose(0, 2, 1),
        labels(20),
        emnist_names("digits"),
        compress=True,
    )
    assert np.array_equal(load("emnist", data).train.images[:, 0], images)
    assert np.array_equal(
        load("emnist(transposed=False)", data).train.images[:, 0], images.transpose(0, 2, 1)
    )


def test_emnist_letters_count_from_1_and_come_in_one_archive(data: Path) -> None:
    images, numbers = pictures(26, 28, 28), np.arange(1, 27)
    write_idx(
        data / "loose", images.transpose(0, 2, 1), numbers, emnist_names("letters"), compress=True
    )
    (data / "EMNIST").mkdir()
    with zipfile.ZipFile(data / "EMNIST" / "gzip.zip", "w") as archive:
        for file in (data / "loose").iterdir():
            archive.write(file, f"gzip/{file.name}")
    letters = load("emnist(split='letters')", data)
    assert letters.classes == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert np.array_equal(letters.train.labels, np.arange(26))
    assert np.array_equal(letters.test.images[:, 0], images)
    with pytest.raises(DataError, match=r"not complete.*emnist-balanced"):
        load("emnist(split='balanced')", data)


def cifar10_files() -> tuple[dict[str, bytes], np.ndarray]:
    images = pictures(60, 3, 32, 32)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    files = {
        f"cifar-10-batches-py/{name}": python2_pickle(
            {b"data": images[start : start + 10].reshape(10, -1), b"labels": list(range(10))}
        )
        for name, start in zip(names, range(0, 60, 10), strict=True)
    }
    return files, images


@pytest.mark.parametrize("place", ["", "cifar10/"])
@pytest.mark.parametrize("packed", [False, True])
def test_cifar10(data: Path, packed: bool, place: str) -> None:
    files, images = cifar10_files()
    if packed:
        write_tar(
            data / f"{place}cifar-10-python.tar.gz", dict(reversed(files.items()))
        )  # the genuine order is not sorted either
    else:
        write_files(data / place, files)
    loaded = load("cifar10", data)
    assert np.array_equal(loaded.train.images, images[:50])
    assert np.array_equal(loaded.test.images, images[50:])
    assert np.array_equal(loaded.train.labels, labels(50))


def test_cifar10_without_a_batch_is_not_complete(data: Path) -> None:
    files, _ = cifar10_files()
    del files["cifar-10-batches-py/data_batch_3"]
    write_tar(data / "cifar-10-python.tar.gz", files)
    with pytest.raises(DataError, match="data_batch_3 is not in it"):
        load("cifar10", data)


def test_cifar100_has_fine_labels(data: Path) -> None:
    images = pictures(100, 3, 32, 32)
    batch = {
        b"data": images.reshape(100, -1),
        b"fine_labels": list(range(100)),
        b"coarse_labels": [0] * 100,
    }
    names = [f"kind{number}".encode() for number in range(100)]
    files = {
        "train": python2_pickle(batch),
        "test": python2_pickle(batch),
        "meta": python2_pickle({b"fine_label_names": names}),
    }
    write_tar(
        data / "cifar100" / "cifar-100-python.tar.gz",
        {f"cifar-100-python/{name}": file for name, file in files.items()},
    )
    loaded = load("cifar100", data)
    assert np.array_equal(loaded.train.labels, np.arange(100))
    assert loaded.classes[:2] == ("kind0", "kind1")
    assert np.array_equal(loaded.test.images, images)


def test_an_archive_of_python_3_is_read_too(data: Path) -> None:
    images = pictures(10, 3, 32, 32)
    batch = pickle.dumps({"data": images.reshape(10, -1), "labels": list(range(10))}, protocol=2)
    write_files(
        data / "cifar-10-batches-py",
        dict.fromkeys([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"], batch),
    )
    assert np.array_equal(load("cifar10", data).test.images, images)


class Bomb:
    """Shows what a pickle can do when an ordinary unpickler opens it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize(
    "call", ["posix.system", "builtins.eval", "numpy.load", "numpy.core.multiarray.fromfile"]
)
def test_a_pickle_with_anything_but_arrays_is_not_opened(data: Path, call: str) -> None:
    module, _, name = call.rpartition(".")
    evil = b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(X\x04\x00\x00\x00truetR."
    files = dict.fromkeys(cifar10_files()[0], evil)
    write_files(data, files)
    with pytest.raises(DataError, match=rf"asks for {module}.{name}.*not opened"):
        load("cifar10", data)


def test_a_pickle_cannot_run_anything(data: Path) -> None:
    files, _ = cifar10_files()
    mark = data / "it-ran"
    files["cifar-10-batches-py/test_batch"] = pickle.dumps({"data": Bomb(mark)})
    write_files(data, files)
    with pytest.raises(DataError, match="not opened"):
        load("cifar10", data)
    assert not mark.exists()


@pytest.mark.parametrize(
    "state",
    [
        (1, (3,), np.dtype(object), False, b"x" * 24),  # numpy would take the bytes for pointers
        (1, (10**9,), np.dtype(np.uint8), False, b"x"),
        (1, (3, -1), np.dtype(np.uint8), False, b"xyz"),
        (1, (3,), np.dtype(np.uint8), False, [None] * 3),
        (1, (3,), np.dtype("V8"), False, b"x" * 24),
        (1,),
    ],
)
def test_a_crafted_array_is_a_sentence_and_not_a_crash(data: Path, state: object) -> None:
    class Crafted:
        def __reduce__(self) -> tuple[object, ...]:
            return np.zeros(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state

    files, _ = cifar10_files()
    files["cifar-10-batches-py/test_batch"] = pickle.dumps({"data": Crafted(), "labels": [0]}, 2)
    write_files(data, files)
    with pytest.raises(DataError, match=r"test_batch.*get (it again|the genuine file)"):
        load("cifar10", data)


def test_an_archive_that_would_fill_the_memory_is_not_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.common.data.files.archives.LARGEST_ENTRY", 1000)
    files, _ = cifar10_files()
    write_tar(data / "cifar-10-python.tar.gz", files)
    with pytest.raises(DataError, match=r"would take 0\.0 GiB"):
        load("cifar10", data)


def test_svhn_calls_the_digit_0_label_10(data: Path) -> None:
    images = pictures(10, 3, 32, 32)
    for split in ("train", "test"):
        content = {
            "X": images.transpose(2, 3, 1, 0),
            "y": np.arange(1, 11, dtype=np.uint8)[:, None],
        }
        savemat(data / f"{split}_32x32.mat", content, do_compression=True)
    loaded = load("svhn", data)
    assert np.array_equal(loaded.train.images, images)
    assert loaded.train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_usps_counts_from_1_and_shades_from_minus_1(data: Path) -> None:
    shades = np.linspace(-1, 1, 256)
    line = " ".join(f"{position}:{value:.6f}" for position, value in enumerate(shades, start=1))
    text = "".join(f"{label} {line} \n" for label in range(1, 11)).encode()
    write_files(data / "usps", {"usps.bz2": bz2.compress(text), "usps.t.bz2": bz2.compress(text)})
    loaded = load("usps", data)
    assert loaded.shape == (1, 16, 16)
    assert loaded.train.labels.tolist() == list(range(10))
    assert loaded.train.images[0].ravel().tolist() == list(range(256))


def test_usps_h5(data: Path) -> None:
    values = pictures(10, 256) / 255
    try:
        import h5py
    except ImportError:
        write_files(data / "usps", {"usps.h5": b"\x89HDF\r\n\x1a\n"})
        with pytest.raises(DataError, match="pip install h5py"):
            load("usps", data)
        return
    (data / "usps").mkdir()
    with h5py.File(data / "usps" / "usps.h5", "w") as file:
        for split in ("train", "test"):
            file.create_dataset(f"{split}/data", data=values)
            file.create_dataset(f"{split}/target", data=np.arange(10))
    assert np.array_equal(load("usps", data).train.images.reshape(10, 256), np.rint(values * 255))


def cinic_files() -> dict[str, bytes]:
    kinds = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )
    return {
        f"{split}/{kind}/{part}-{kind}.png": png(np.full((32, 32, 3), 20 * number + part, np.uint8))
        for split in ("train", "valid", "test")
        for number, kind in enumerate(kinds)
        for part in range(2)
    }


@pytest.mark.parametrize("packed", [False, True])
def test_cinic10(data: Path, packed: bool) -> None:
    if packed:
        write_tar(data / "CINIC-10.tar.gz", cinic_files())
    else:
        write_files(data / "CINIC-10", cinic_files())
    loaded = load("cinic10", data)
    assert (len(loaded.train), len(loaded.test)) == (20, 20)  # without the validation split
    assert np.array_equal(
        loaded.train.images[:, 0, 0, 0], 20 * loaded.train.labels + np.arange(20) % 2
    )


def tiny_files() -> dict[str, bytes]:
    kinds = [f"n{number:08}" for number in range(200)]
    files = {
        f"tiny-imagenet-200/train/{kind}/images/{kind}_0.JPEG": png(
            np.full((64, 64, 3), n, np.uint8)
        )
        for n, kind in enumerate(kinds)
    }
    grey = {
        f"tiny-imagenet-200/train/{kinds[0]}/images/{kinds[0]}_1.JPEG": png(
            np.zeros((64, 64), np.uint8)
        )
    }  # a few are
    test = {
        f"tiny-imagenet-200/val/images/val_{n}.JPEG": png(np.full((64, 64, 3), n, np.uint8))
        for n in range(5)
    }
    notes = "".join(f"val_{n}.JPEG\t{kinds[n]}\t0\t0\t62\t62\n" for n in reversed(range(5)))
    unlabelled = {"tiny-imagenet-200/test/images/test_0.JPEG": png(np.zeros((64, 64, 3), np.uint8))}
    return (
        files
        | grey
        | test
        | unlabelled
        | {"tiny-imagenet-200/val/val_annotations.txt": notes.encode()}
    )


@pytest.mark.parametrize("packed", [False, True])
def test_tiny_imagenet(data: Path, packed: bool) -> None:
    if packed:
        with zipfile.ZipFile(data / "tiny-imagenet-200.zip", "w") as archive:
            for name, content in tiny_files().items():
                archive.writestr(name, content)
    else:
        write_files(data / "tiny-imagenet", tiny_files())
    loaded = load("tiny-imagenet", data)
    assert loaded.shape == (3, 64, 64)
    assert len(loaded.train) == 201
    assert loaded.train.labels[:3].tolist() == [0, 0, 1]
    assert loaded.test.labels.tolist() == [4, 3, 2, 1, 0]
    assert np.array_equal(loaded.test.images[:, 0, 0, 0], loaded.test.labels)
    assert loaded.classes[1] == "n00000001"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: b"", "is empty"),
        (lambda content: content[:-1], "cut off"),
        (lambda content: content[:9], "damaged"),
        (lambda content: b"PNG!" + content[4:], "not an IDX file"),
        (lambda content: b"\x1f\x8b" + content, "damaged"),
    ],
)
def test_damaged_idx_files_are_named(data: Path, change, words: str) -> None:
    write_idx(data / "mnist", pictures(30, 28, 28), labels(30), MNIST)
    file = data / "mnist" / MNIST[0]
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(DataError, match=words) as caught:
        load("mnist", data)
    assert str(file) in str(caught.value)
    assert "get it again" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "cifar-10-python.tar.gz",
        "CINIC-10.tar.gz",
        "tiny-imagenet-200.zip",
        "usps.bz2",
        "train_32x32.mat",
    ],
)
def test_damaged_archives_are_named(data: Path, name: str) -> None:
    lines = {
        "cifar": "cifar10",
        "CINIC": "cinic10",
        "tiny-": "tiny-imagenet",
        "usps.": "usps",
        "train": "svhn",
    }
    write_files(data, dict.fromkeys((name, "usps.t.bz2", "test_32x32.mat"), b"rubbish" * 99))
    with pytest.raises(DataError, match=r"damaged or is not .*get it again"):
        load(lines[name[:5]], data)


def test_labels_out_of_range_are_refused(data: Path) -> None:
    write_idx(data / "mnist", pictures(30, 28, 28), labels(30, 11), MNIST)
    with pytest.raises(DataError, match="label 10 is out of range: there are 10 classes"):
        load("mnist", data)


def test_other_sizes_than_the_published_one_need_a_word(data: Path) -> None:
    write_idx(data / "mnist", pictures(30, 20, 20), labels(30), MNIST)
    with pytest.raises(DataError, match=r"1x20x20.*the published ones are 1x28x28; write size="):
        load("mnist", data)
    assert load("mnist(size=28)", data).shape == (1, 28, 28)


def test_fewer_labels_than_pictures(data: Path) -> None:
    write_idx(data / "mnist", pictures(30, 28, 28), labels(29), MNIST)
    with pytest.raises(DataError, match="train split: 30 pictures but 29 labels"):
        load("mnist", data)


def test_a_missing_set_says_what_was_looked_for_and_where(data: Path) -> None:
    with pytest.raises(DataError) as caught:
        load("cifar100", data)
    for words in (
        "cifar-100-python.tar.gz",
        "train*.parquet",
        str(data / "cifar100"),
        "toronto",
        "--download",
        "uoft-cs/cifar100",
    ):
        assert words in str(caught.value)


def test_the_environment_names_the_data_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(data / "mnist", pictures(30, 28, 28), labels(30), MNIST)
    monkeypatch.setenv("FEDMIRAGE_DATA", str(data))
    assert len(load("mnist").train) == len(load("mnist", "").train) == 30


def mnist_m_files(count: int = 20) -> dict[str, bytes]:
    """Pictures with numbers as names, and the list of their labels, for both splits."""
    files = {}
    for seed, part in enumerate(("mnist_m_train", "mnist_m_test")):
        images = pictures(count, 32, 32, 3, seed=seed)
        files |= {f"{part}/{number:08}.png": png(image) for number, image in enumerate(images)}
        listed = [f"{number:08}.png {9 - number % 10}\n" for number in reversed(range(count))]
        files[f"{part}_labels.txt"] = "".join(listed).encode()
    return files


@pytest.mark.parametrize("form", ["archive", "folder", "home"])
def test_mnist_m_lists_its_labels(data: Path, form: str) -> None:
    """The order is that of the list, here from the last picture to the first."""
    if form == "archive":
        files = {f"mnist_m/{name}": content for name, content in mnist_m_files().items()}
        write_tar(data / "mnist_m.tar.gz", files)
    else:
        write_files(data / ("mnist-m/mnist_m" if form == "folder" else "MNIST-M"), mnist_m_files())
    loaded = load("mnist-m", data)
    assert loaded.shape == (3, 32, 32)
    assert np.array_equal(loaded.train.labels, labels(20))
    expected = pictures(20, 32, 32, 3, seed=1)[::-1].transpose(0, 3, 1, 2)
    assert np.array_equal(loaded.test.images, expected)


def test_mnist_m_without_a_listed_picture_is_refused(data: Path) -> None:
    files = mnist_m_files()
    del files["mnist_m_test/00000003.png"]
    write_files(data / "mnist-m", files)
    with pytest.raises(DataError, match=r"mnist_m_test is not complete \('00000003.png' is miss"):
        load("mnist-m", data)


def test_synth_digits_has_the_form_of_svhn(data: Path) -> None:
    for seed, part in enumerate(("train", "test")):
        images = pictures(20, 32, 32, 3, seed=seed)
        content = {"X": images.transpose(1, 2, 3, 0), "y": labels(20)[:, None].astype(np.uint8)}
        (data / "SynthDigits").mkdir(exist_ok=True)
        savemat(data / f"SynthDigits/synth_{part}_32x32.mat", content)
    loaded = load("synth-digits", data)
    assert np.array_equal(loaded.train.labels, labels(20))
    expected = pictures(20, 32, 32, 3, seed=1).transpose(0, 3, 1, 2)
    assert np.array_equal(loaded.test.images, expected)


def test_the_five_sets_of_digits_are_one_set_of_five_domains(data: Path) -> None:
    """FedLGD's DIGITS: MNIST, SVHN, USPS, SynthDigits, MNIST-M, at 28 pixels and in colour."""
    write_idx(data / "mnist", pictures(20, 28, 28), labels(20), MNIST)
    write_files(data / "mnist-m", mnist_m_files())
    lines = bz2.compress("".join(f"{label + 1} 1:0.5\n" for label in labels(20)).encode())
    write_files(data / "usps", {"usps.bz2": lines, "usps.t.bz2": lines})
    for folder, prefix in (("svhn", ""), ("synth-digits", "synth_")):
        (data / folder).mkdir()
        for part in ("train", "test"):
            images = pictures(20, 32, 32, 3).transpose(1, 2, 3, 0)
            savemat(data / folder / f"{prefix}{part}_32x32.mat", {"X": images, "y": labels(20)})
    names = ("mnist", "svhn", "usps", "synth-digits", "mnist-m")
    line = ", ".join(f"{name}(size=28, channels=3)" for name in names)
    made = load(line, data)
    assert made.domains == names
    assert made.shape == (3, 28, 28)
    assert np.bincount(made.train.columns["domain"]).tolist() == [20] * 5
