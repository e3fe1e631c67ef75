"""Pictures as single files, one folder per class, unpacked or still in the archive.

These are your own pictures, CINIC-10, Tiny ImageNet, and MNIST-M, which lists its labels.
"""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np

from fedmirage.common.data.catalogue.cards import DIGITS, NAMES
from fedmirage.common.data.files.archives import read_entries, read_text
from fedmirage.common.data.files.decoding import decode
from fedmirage.common.data.files.places import is_picture, list_pictures
from fedmirage.common.data.files.raw import PictureForm, Raw, RawSplit
from fedmirage.common.errors import DataError

Item = tuple[str, str, bytes | Path]  # class, name, content


def image_folder(root: Path, test: Path | None, classes: tuple[str, ...], form: PictureForm) -> Raw:
    """Read your own pictures: the class is the first folder below the root."""

    def items(folder: Path) -> list[Item]:
        return [
            (path.relative_to(folder).parts[0], str(path), path) for path in list_pictures(folder)
        ]

    train, tested = items(root), items(test) if test else []
    folders = {
        inner.name
        for top in (root, *([test] if test else []))
        for inner in top.iterdir()
        if inner.is_dir()
    }
    known = classes or tuple(sorted(name for name in folders if not name.startswith(".")))
    return Raw(_split(train, known, form), _split(tested, known, form) if test else None, known)


def cinic10(path: Path, form: PictureForm) -> Raw:
    """Read train/<class>/<picture> and test/<class>/<picture> at any depth."""
    found: dict[str, list[Item]] = {"train": [], "test": []}

    def wanted(name: str) -> bool:
        parts = PurePosixPath(name).parts
        return is_picture(name) and len(parts) >= 3 and parts[-3] in found

    for name, content in read_entries(path, wanted):
        split, kind, _ = PurePosixPath(name).parts[-3:]
        found[split].append((kind, f"{path}: {name}", content))
    train, test = (
        _split(sorted(items, key=lambda item: item[1]), NAMES["things"], form)
        for items in found.values()
    )
    return Raw(train, test)


def mnist_m(path: Path, form: PictureForm) -> Raw:
    """Read mnist_m_train/<picture> and mnist_m_test/<picture>.

    The lines of mnist_m_train_labels.txt and mnist_m_test_labels.txt are "<picture> <digit>".
    """
    pictures: dict[str, bytes | Path] = {}
    lists: dict[str, str] = {}
    for name, content in read_entries(
        path, lambda name: is_picture(name) or name.endswith("_labels.txt")
    ):
        parts = PurePosixPath(name).parts
        if name.endswith("_labels.txt"):
            lists[parts[-1].removesuffix("_labels.txt")] = read_text(content, f"{path}: {name}")
        elif len(parts) >= 2:
            pictures["/".join(parts[-2:])] = content
    splits = []
    for split in ("mnist_m_train", "mnist_m_test"):
        lines = [line.split() for line in lists.get(split, "").splitlines() if line.strip()]
        missing = [line[0] for line in lines if f"{split}/{line[0]}" not in pictures]
        if not lines or missing:
            detail = f"{missing[0]!r} is missing" if missing else f"no {split}_labels.txt"
            raise DataError(f"{path}: {split} is not complete ({detail}); get mnist_m.tar.gz again")
        items = [
            (line[-1], f"{path}: {split}/{line[0]}", pictures[f"{split}/{line[0]}"])
            for line in lines
        ]
        splits.append(_split(items, DIGITS, form))
    return Raw(splits[0], splits[1])


def tiny_imagenet(path: Path, form: PictureForm) -> Raw:
    """Read train/<class>/images/<picture> and val/images/<picture> with val/val_annotations.txt.

    Classes are numbered in alphabetical order.
    """
    train: list[Item] = []
    pictures: dict[str, bytes | Path] = {}
    annotations = ""
    for name, content in read_entries(
        path, lambda name: is_picture(name) or name.endswith("val/val_annotations.txt")
    ):
        parts = PurePosixPath(name).parts
        if parts[-1] == "val_annotations.txt":
            annotations = read_text(content, f"{path}: {name}")
        elif len(parts) >= 4 and parts[-4] == "train":
            train.append((parts[-3], f"{path}: {name}", content))
        elif len(parts) >= 3 and parts[-3:-1] == ("val", "images"):
            pictures[parts[-1]] = content
    lines = [line.split("\t") for line in annotations.splitlines() if line.strip()]
    missing = [line[0] for line in lines if len(line) < 2 or line[0] not in pictures]
    if not lines or missing:
        detail = f"{missing[0]!r} is missing" if missing else "there is no val/val_annotations.txt"
        raise DataError(
            f"{path}: the validation pictures are not complete ({detail}); get"
            " tiny-imagenet-200.zip again"
        )
    classes = tuple(sorted({kind for kind, _, _ in train}))
    test = [(line[1], f"{path}: {line[0]}", pictures[line[0]]) for line in lines]
    train.sort(key=lambda item: item[1])
    return Raw(_split(train, classes, form), _split(test, classes, form), classes)


def _split(items: list[Item], classes: tuple[str, ...], form: PictureForm) -> RawSplit:
    number = {name: position for position, name in enumerate(classes)}
    strangers = sorted({kind for kind, _, _ in items} - set(classes))
    if strangers:
        raise DataError(
            f"the folder {strangers[0]!r} is none of the classes {', '.join(classes)}; rename it or"
            " write classes=(...)"
        )
    contents: Iterable[tuple[str, bytes | Path]] = ((name, content) for _, name, content in items)
    images, lost = decode(contents, len(items), form)
    labels = np.array([number[kind] for kind, _, _ in items], np.int64)
    return RawSplit(images, labels).without(lost)
