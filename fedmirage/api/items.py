"""Reads a Dataset of torch or of Hugging Face item by item, once, into arrays."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from fedmirage.api.samples import Conversion, Convert, flatten, say_shape, to_array
from fedmirage.common.data.files.decoding import DEEP_MODES, GREY_MODES
from fedmirage.common.data.files.formats.npz import to_bytes
from fedmirage.common.errors import DataError, say_kind
from fedmirage.show.bar import make_bar

if TYPE_CHECKING:
    from rich.console import Console

Values = npt.NDArray[Any]
IMAGE, LABEL = ("image", "img"), ("label", "labels")
STEP = 500  # items between two looks of the bar, where nobody knows how many there are


def read_items(where: str, given: Any, how: Conversion) -> tuple[Values, Values, tuple[str, ...]]:
    """Read images, labels and the names of classes."""
    keys = find_keys(where, given, how.columns)
    if keys and hasattr(given, "select_columns"):
        given = given.select_columns(list(keys))  # other columns need not be decoded
    count = len(given) if hasattr(given, "__len__") else None
    count = count if how.most is None or count is None else min(how.most, count)
    images: list[Values] = []
    labels: list[Any] = []
    items = iterate(where, given, count, how.most)
    for number, item in enumerate(show_progress(items, where, count, how.console)):
        image, label = open_item(f"{where}, item {number}", item, keys or how.columns, how.convert)
        if images and image.shape != images[0].shape:
            raise DataError(
                f"{where}, item {number} is {say_shape(image.shape)}, the items before it are"
                f" {say_shape(images[0].shape)}; let the Dataset bring them into one size"
            )
        images.append(image)
        labels.append(label)
    if not images:
        return np.zeros((0, 1, 1, 1), np.uint8), np.zeros(0, np.int64), ()
    return np.stack(images), join_labels(where, labels), find_names(given, keys)


def show_progress(
    items: Iterator[Any], where: str, count: int | None, console: Console
) -> Iterator[Any]:
    """Pass items on, and show how many there were: after every hundredth part of them."""
    bar = [TextColumn("reading {task.description}"), BarColumn(), MofNCompleteColumn()]
    progress = make_bar(console, *bar, TimeRemainingColumn(), unit="items")
    task = progress.add_task(where, total=count)
    step = max(1, count // 100) if count else STEP
    done = 0
    with progress:
        for done, item in enumerate(items, 1):
            yield item
            if done % step == 0:
                progress.update(task, completed=done)
        progress.update(task, completed=done)


def find_keys(
    where: str, given: Any, columns: tuple[str | None, str | None]
) -> tuple[str, str] | None:
    """Choose the columns of a Hugging Face Dataset; None if this is none, or does not say."""
    present = getattr(given, "column_names", None)
    return None if present is None else pick_keys(where, present, columns)


def pick_keys(
    where: str, present: Sequence[str], columns: tuple[str | None, str | None]
) -> tuple[str, str]:
    """Choose the columns of images and labels among those that there are."""
    found = []
    for key, given, usual in zip(("image", "label"), columns, (IMAGE, LABEL), strict=True):
        wanted = [given] if given else usual
        known = [name for name in wanted if name in present]
        if not known:
            raise DataError(
                f"{where}: there is no column {' or '.join(map(repr, wanted))}, only"
                f" {', '.join(map(str, present))}; write OwnData(..., {key}=...) with the one that"
                " is meant"
            )
        found.append(known[0])
    return found[0], found[1]


def iterate(where: str, given: Any, count: int | None, most: int | None) -> Iterator[Any]:
    """Yield the items; whatever one raises becomes a sentence."""
    by_number = count is not None and not hasattr(given, "column_names")
    source = map(given.__getitem__, range(count or 0)) if by_number else iter(given)
    number = 0
    while most is None or number < most:
        try:
            item = next(source)
        except StopIteration:
            return
        except Exception as error:  # whatever a user's Dataset raises
            raise DataError(f"{where}, item {number} raised {locate_error(error)}") from error
        yield item
        number += 1


def locate_error(error: Exception) -> str:
    """Say what was raised, and in which line of which file."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]} ({Path(last.filename).name}, line {last.lineno})"


def open_item(
    where: str, item: Any, columns: tuple[str | None, str | None], convert: Convert
) -> tuple[Values, Any]:
    """Take one item apart: the image or other input with channels first, and its label."""
    if isinstance(item, Mapping):
        image, label = (item[key] for key in pick_keys(where, list(item), columns))
    elif isinstance(item, tuple | list) and len(item) == 2:
        image, label = item
    else:
        raise DataError(f"{where} is {say_kind(item)}; it must be a pair (image, label)")
    if label is None:
        raise DataError(f"{where} has no label; leave it out of the Dataset")
    return to_input(where, image, convert), label.tolist() if hasattr(label, "tolist") else label


def to_input(where: str, image: Any, convert: Convert) -> Values:
    """Turn a PIL picture, a tensor, an array or nested lists into one input of a set."""
    if hasattr(image, "convert") and hasattr(image, "mode"):
        if image.mode in DEEP_MODES:
            raise DataError(f"{where} has more than 8 bits per pixel; convert it to 8 bits")
        image = image.convert("L" if image.mode in GREY_MODES else "RGB")
    values = to_array(where, image)
    whole = isinstance(image, list) and values.dtype.kind == "i" and values.size > 0
    if whole and convert is to_bytes and values.min() >= 0 and values.max() <= 255:
        values = values.astype(np.uint8)  # lists have no type of their own
    made: Values = convert(where, values[None])[0]
    return made


def join_labels(where: str, labels: list[Any]) -> Values:
    """Make one array of all labels."""
    if len({isinstance(label, str) for label in labels}) > 1:
        raise DataError(f"{where}: some labels are texts, some are not; write one kind for all")
    return flatten(to_array(f"{where}: labels", labels))


def find_names(given: Any, keys: tuple[str, str] | None) -> tuple[str, ...]:
    """Return the names of the classes that a Dataset knows, if it does."""
    feature = (getattr(given, "features", None) or {}).get(keys[1]) if keys else None
    names = getattr(feature, "names", None) if keys else getattr(given, "classes", None)
    known = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if known and names else ()
