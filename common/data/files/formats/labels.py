"""A parquet column of labels: numbers, names, or lists of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedmirage.common.data.catalogue.cards import Card
from fedmirage.common.data.files.raw import Values
from fedmirage.common.errors import DataError

LONGEST = 1000  # characters of the name of a class


def read_labels(
    parts: Sequence[pa.ChunkedArray], card: Card, stored: tuple[str, ...]
) -> tuple[list[Values], tuple[str, ...]]:
    """Return the labels of every split, and the names of the classes.

    Lists of labels become one 0 or 1 per class. Lists of equal length that hold nothing but 0 and 1
    have that form already, unless the file declares (`stored`) that its numbers are classes.
    """
    if not _is_list(parts[0].type):
        flat = [to_array(part) for part in parts]
        if flat[0].dtype.kind != "U":
            return flat, card.classes or stored
        known = card.classes or tuple(np.unique(np.concatenate(flat)).tolist())
        return [_positions(part.tolist(), known) for part in flat], known
    rows = [part.to_pylist() for part in parts]
    everything = {_require_label(label) for part in rows for row in part for label in row}
    names = {label for label in everything if isinstance(label, str)}
    if names and names == everything:
        known = card.classes or tuple(sorted(names))
        return [
            _indicators([_positions(row, known).tolist() for row in part], len(known))
            for part in rows
        ], known
    lengths = {len(row) for part in rows for row in part}
    if not stored and len(lengths) == 1 and max(lengths) > 1 and everything <= {0, 1}:
        return [np.array(part, np.uint8) for part in rows], card.classes
    numbers = {label for label in everything if isinstance(label, int) and label >= 0}
    if numbers != everything:
        raise DataError(
            "the lists of labels must hold names, class numbers from 0, or one 0 or 1 per class"
        )
    classes = card.class_count or len(stored) or max(numbers, default=0) + 1
    listed = sum(len(row) for part in rows for row in part)
    if not (card.class_count or stored) and classes > max(2, listed):
        raise DataError(
            f"the lists of labels go up to {classes - 1}, but hold {listed} numbers in all; number"
            " the classes from 0, or write classes="
        )
    return [_indicators(part, classes) for part in rows], card.classes or stored


def to_array(column: pa.ChunkedArray) -> Values:
    """Convert a column to an array: numbers stay as they are, texts become numpy texts."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: Values = column.to_numpy()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return values
    # In numpy's array, every text takes the memory of the longest.
    return np.array([_require_label(text) for text in values], str)


def _require_label(label: Any) -> str | int:
    """Refuse what names no class."""
    if isinstance(label, str) and len(label) > LONGEST:
        raise DataError(f"the label {label[:20]!r}... has {len(label)} characters; shorten it")
    if not isinstance(label, str | int):
        raise DataError(
            f"a label is {label!r}; lists must hold names, class numbers from 0, or one 0 or 1 per"
            " class"
        )
    return label


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _positions(labels: Sequence[str], known: tuple[str, ...]) -> npt.NDArray[np.int64]:
    numbers = {name: number for number, name in enumerate(known)}
    strangers = sorted(set(labels) - set(known))
    if strangers:
        raise DataError(
            f"label {strangers[0]!r} is none of the classes {', '.join(known)}; correct it or write"
            " classes=(...)"
        )
    return np.array([numbers[label] for label in labels], np.int64)


def _indicators(rows: Sequence[Sequence[int]], classes: int) -> npt.NDArray[np.uint8]:
    labels = np.zeros((len(rows), classes), np.uint8)
    for row, numbers in enumerate(rows):
        if numbers and max(numbers) >= classes:
            raise DataError(
                f"label {max(numbers)} in row {row} is out of range: there are {classes} classes,"
                " counted from 0"
            )
        labels[row, list(numbers)] = 1
    return labels
