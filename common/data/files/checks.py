"""Checks a set when it is decoded."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.catalogue.cards import Card
from fedmirage.common.data.files.raw import Raw, RawSplit, Values
from fedmirage.common.data.set import Split, Task
from fedmirage.common.errors import DataError


def check_lengths(origin: str, raw: Raw) -> None:
    """Refuse a set without samples, or without one picture, label and column value per sample."""
    for name, split in (("train", raw.train), ("test", raw.test)):
        if split is None:
            continue
        if split.labels.ndim == 0:
            raise DataError(
                f"{origin}, {name} split: the labels are a single value; write one per sample"
            )
        for what, values in (
            ("pictures" if split.images.dtype == np.uint8 else "inputs", split.images),
            *((f"values of {key!r}", column) for key, column in split.columns.items()),
        ):
            if len(values) != len(split.labels):
                raise DataError(
                    f"{origin}, {name} split: {len(values)} {what} but {len(split.labels)} labels;"
                    " there must be as many of both"
                )
    if len(raw.train.labels) == 0:
        raise DataError(f"{origin} holds no training sample; put data there or give another path")


def check_splits(
    origin: str, raw: Raw, card: Card, expected: tuple[int, ...] | None
) -> tuple[Split, Split, tuple[str, ...], Task]:
    """Return both splits with labels of their final type, the class names and the task.

    Raise a sentence about the first thing that is wrong.
    """
    train, test = raw.train, raw.test
    if test is None or len(test.labels) == 0:
        test = RawSplit(
            train.images[:0],
            train.labels[:0],
            {name: column[:0] for name, column in train.columns.items()},
        )
    parts = ((f"{origin}, train split", train), (f"{origin}, test split", test))
    for name, split in parts:
        _check_images(name, split, expected or train.images.shape[1:], bool(expected))
    task: Task = "multi-label" if train.labels.ndim == 2 else "single-label"
    if card.task not in (task, "any"):
        raise DataError(
            f"{origin}: the labels have {train.labels.ndim} dimensions, but the set is {card.task};"
            " get it again"
        )
    labels = [_labels(name, split.labels, task) for name, split in parts]
    classes = _classes(origin, labels, card, raw.classes, task)
    for (name, _), values in zip(parts, labels, strict=True):
        _check_range(name, values, len(classes), task)
    first, second = (
        Split(
            split.images,
            values,
            {name: column.astype(np.int64) for name, column in split.columns.items()},
        )
        for (_, split), values in zip(parts, labels, strict=True)
    )
    return first, second, classes, task


def _check_images(origin: str, split: RawSplit, expected: tuple[int, ...], published: bool) -> None:
    images = split.images
    if images.dtype == np.float32:
        _check_rows(origin, split, expected)
        return
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{origin}: the pictures are {images.dtype} with {images.ndim} dimensions instead of"
            " bytes with 4"
        )
    if images.shape[1:] != tuple(expected):
        shape, wanted = ("x".join(map(str, numbers)) for numbers in (images.shape[1:], expected))
        reason = "the published ones are" if published else "the training pictures are"
        raise DataError(
            f"{origin}: the pictures are {shape} (channels, height, width), {reason} {wanted};"
            " write size= and channels="
        )


def _check_rows(origin: str, split: RawSplit, expected: tuple[int, ...]) -> None:
    """Refuse inputs of another shape, and infinite ones; NaN stands for a missing value."""
    inputs = split.images
    if inputs.ndim < 2 or inputs.shape[1:] != tuple(expected):
        shape, wanted = ("x".join(map(str, numbers)) for numbers in (inputs.shape[1:], expected))
        raise DataError(
            f"{origin}: the inputs have the shape {shape or 'of one number'}, those of the training"
            f" split {wanted}; give all of them one shape"
        )
    if infinite := int(np.isinf(inputs).any(tuple(range(1, inputs.ndim))).sum()):
        raise DataError(
            f"{origin}: {infinite} of the {len(inputs)} inputs hold infinite values; correct them"
        )


def _labels(
    origin: str, labels: Values, task: Task
) -> npt.NDArray[np.int64] | npt.NDArray[np.uint8]:
    """Convert class numbers to int64 and indicators to bytes.

    Floats are refused even if they are whole numbers, because they may mean something else.
    """
    kinds = "biu" if task == "multi-label" else "iu"
    if labels.ndim != (2 if task == "multi-label" else 1):
        raise DataError(
            f"{origin}: the labels have the shape {labels.shape}; write one number per sample, or"
            " one 0 or 1 per class"
        )
    if labels.dtype.kind not in kinds:
        raise DataError(
            f"{origin}: the labels are {labels.dtype}, not whole numbers; number the classes from 0"
            ' (.astype("int64"))'
        )
    if task == "single-label":
        return labels.astype(np.int64)
    if labels.size and not np.isin(labels, (0, 1)).all():
        raise DataError(
            f"{origin}: labels with one column per class must be 0 or 1, but there is"
            f" {int(labels.max())}; correct them"
        )
    return labels.astype(np.uint8)


def _classes(
    origin: str, labels: list[Any], card: Card, names: tuple[str, ...], task: Task
) -> tuple[str, ...]:
    """Choose the class names: the card's, else those in the files, else numbers."""
    known = card.classes or names
    count = card.class_count or len(known)
    if not count:
        count = (
            labels[0].shape[1]
            if task == "multi-label"
            else int(max(values.max(initial=0) for values in labels)) + 1
        )
        if count > max(2, len(labels[0])):
            raise DataError(
                f"{origin}: the labels go up to {count - 1} with {len(labels[0])} samples; number"
                " the classes from 0"
            )
    if count < 2:
        raise DataError(
            f"{origin} has only one class in its {sum(map(len, labels))} samples; write"
            " classes=... with the number or the names of all classes"
        )
    return known if len(known) == count else tuple(map(str, range(count)))


def _check_range(origin: str, labels: Values, classes: int, task: Task) -> None:
    if task == "multi-label" and labels.shape[1] != classes and len(labels):
        raise DataError(
            f"{origin}: the labels have {labels.shape[1]} columns for {classes} classes; write"
            f" classes={labels.shape[1]}"
        )
    inside = not len(labels) or (labels.min() >= 0 and labels.max() < classes)
    if task == "single-label" and not inside:
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise DataError(
            f"{origin}: label {worst} is out of range: there are {classes} classes, counted from 0;"
            " correct it or write classes="
        )
