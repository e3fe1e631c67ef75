"""Reads the genuine files of CIFAR, SVHN and USPS."""

import bz2
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fedmirage.common.data.files.archives import check_size, read_content, read_entries, unpickle
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit, Values, reading
from fedmirage.common.errors import DataError

CIFAR10_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
USPS_SIDE = 16
USPS_BYTES = 2**27  # more than either of its files has


def cifar10(path: Path, form: PictureForm) -> Raw:
    """Read cifar-10-python.tar.gz or the folder that it unpacks to."""
    batches = _cifar(path, (*CIFAR10_TRAIN, "test_batch"))
    train = [
        _cifar_split(batches[name], "labels", f"{path}: {name}", form) for name in CIFAR10_TRAIN
    ]
    joined = RawSplit(
        np.concatenate([part.images for part in train]),
        np.concatenate([part.labels for part in train]),
    )
    return Raw(joined, _cifar_split(batches["test_batch"], "labels", f"{path}: test_batch", form))


def cifar100(path: Path, form: PictureForm) -> Raw:
    """Read cifar-100-python.tar.gz or the folder that it unpacks to, with the fine labels."""
    batches = _cifar(path, ("train", "test", "meta"))
    train, test = (
        _cifar_split(batches[name], "fine_labels", f"{path}: {name}", form)
        for name in ("train", "test")
    )
    with reading(path, "CIFAR-100"):
        names = batches["meta"].get("fine_label_names", [])
        classes = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    return Raw(train, test, classes)


def svhn(train: Path, test: Path, form: PictureForm) -> Raw:
    """Read train_32x32.mat and test_32x32.mat, or SynthDigits' synth_train_32x32.mat, ...

    X is (32, 32, 3, samples), and the label 10 means the digit 0.
    """
    from scipy.io import loadmat  # here, because it takes half a second and few sets need it

    splits = []
    for path in (train, test):
        with reading(path, "a MATLAB file with X and y"):
            content = loadmat(path, variable_names=("X", "y"))
            images: Images = np.ascontiguousarray(content["X"].transpose(3, 2, 0, 1))
            labels = content["y"].reshape(-1).astype(np.int64)
        splits.append(RawSplit(arrange(images, form), np.where(labels == 10, 0, labels)))
    return Raw(splits[0], splits[1])


def usps_text(train: Path, test: Path, form: PictureForm) -> Raw:
    """Read usps.bz2 and usps.t.bz2.

    There is one line per picture, "label 1:value ... 256:value"; labels start at 1, and values are
    in [-1, 1].
    """
    splits = []
    for path in (train, test):
        with reading(path, "a compressed file of USPS"):
            with bz2.open(path) as file:
                text = file.read(USPS_BYTES + 1)
            check_size(str(path), len(text), USPS_BYTES)
            lines = text.decode("ascii").splitlines()
            labels = np.array(
                [int(float(line.split(maxsplit=1)[0])) - 1 for line in lines], np.int64
            )
            values = np.array([_usps_line(line) for line in lines]).reshape(
                -1, 1, USPS_SIDE, USPS_SIDE
            )
        splits.append(RawSplit(arrange(_shades((values + 1) / 2, path), form), labels))
    return Raw(splits[0], splits[1])


def usps_h5(path: Path, form: PictureForm) -> Raw:
    """Read usps.h5: train/data (samples, 256) in [0, 1] and train/target, the same for test."""
    try:  # h5py is not a requirement, because only this one file needs it
        import h5py  # type: ignore[import-not-found]
    except ImportError:
        raise DataError(
            f"{path} needs the package h5py; run pip install h5py, or get usps.bz2 and usps.t.bz2"
            " instead"
        ) from None
    splits = []
    with reading(path, "an HDF5 file of USPS"), h5py.File(path, "r") as file:
        for split in ("train", "test"):
            values: Values = np.asarray(file[split]["data"]).reshape(-1, 1, USPS_SIDE, USPS_SIDE)
            labels: Values = np.asarray(file[split]["target"]).reshape(-1)
            splits.append(RawSplit(arrange(_shades(values, path), form), labels))
    return Raw(splits[0], splits[1])


def _usps_line(line: str) -> list[float]:
    values = [0.0] * USPS_SIDE**2
    for pair in line.split()[1:]:
        position, value = pair.split(":")
        values[int(position) - 1] = float(value)
    return values


def _shades(values: Values, path: Path) -> Images:
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise DataError(f"{path} has values outside their range; get it again")
    return np.asarray(np.rint(values * 255), np.uint8)


def _cifar(path: Path, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, content in read_entries(path, lambda name: PurePosixPath(name).name in names):
        short = PurePosixPath(name).name
        found[short] = unpickle(read_content(content), f"{path}: {short}")
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(f"{path} is not complete: {', '.join(missing)} is not in it; get it again")
    return found


def _cifar_split(batch: dict[str, Any], key: str, name: str, form: PictureForm) -> RawSplit:
    with reading(name, "a batch of CIFAR"):
        images = np.asarray(batch["data"])
        if images.dtype != np.uint8:
            raise DataError(f"{name} holds {images.dtype} instead of bytes; get the genuine file")
        return RawSplit(arrange(images.reshape(-1, 3, 32, 32), form), np.asarray(batch[key]))
