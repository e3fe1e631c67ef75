"""From what a Python program calls data to arrays: pairs, Datasets, and parts of clients.

Nothing of torch or Hugging Face is imported here: what an object can do says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedmirage.api.parts import SPLITS, list_parts
from fedmirage.common.errors import DataError, FedmirageError, say_kind

if TYPE_CHECKING:
    from rich.console import Console

Values = npt.NDArray[Any]
Convert = Callable[[str, Values], Values]  # begins the sentence about what cannot be converted
MORE = 3  # missing classes that a sentence names


@dataclass(frozen=True)
class Conversion:
    """How objects become the arrays of a set."""

    columns: tuple[str | None, str | None]  # of images and labels in a Hugging Face Dataset
    console: Console
    most: int | None  # items of an object that is read item by item; None: all
    convert: Convert  # to the arrays of a set: `to_bytes` pictures, `to_floats` anything else


@dataclass
class SampleBlock:
    """The samples of one object: of all clients, of one client, or for the test."""

    where: str  # for sentences
    split: str
    client: int  # -1: of nobody in particular
    # (samples, channels, height, width) bytes of pictures, else (samples, channels, ...) floats
    images: Values
    labels: Values
    names: tuple[str, ...] = ()  # of the classes, where the object knows them


@dataclass
class Gathered:
    """Everything that was given, and what is wrong with it."""

    blocks: list[SampleBlock] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clients: int = 0  # 0: the samples are not divided among clients
    whole: bool = True  # whether all samples were read

    def find_problems(self, keys: Mapping[str, Any]) -> list[str]:
        """List what is wrong with every object, and between them.

        What depends on all samples is left out if not all were read.
        """
        classes = () if self.problems or not self.whole else self._classes(keys)
        return [*self.problems, *self._alike(), *classes]

    def _alike(self) -> Iterator[str]:
        """Images, labels and names of classes must be of one form in all objects."""
        first = self.blocks[0] if self.blocks else None
        for block in self.blocks[1:]:
            assert first is not None
            shapes = [one.images.shape[1:] for one in (block, first)]
            if shapes[0] != shapes[1]:
                yield (
                    f"the images of {block.where} are {say_shape(shapes[0])}, those of"
                    f" {first.where} {say_shape(shapes[1])}; bring them all into one size"
                )
            kinds = [(one.labels.ndim, one.labels.dtype.kind == "U") for one in (block, first)]
            if kinds[0] != kinds[1]:
                yield (
                    f"the labels of {block.where} are of another kind than those of {first.where};"
                    " write class numbers, names, or one 0 or 1 per class for all"
                )
            elif block.names and first.names and block.names != first.names:
                yield (
                    f"the classes of {block.where} have other names, or another order, than those"
                    f" of {first.where}; number them alike"
                )

    def _classes(self, keys: Mapping[str, Any]) -> Iterator[str]:
        """Without a word about the classes, every number up to the last must be one of them."""
        labels = [one.labels for one in self.blocks if one.split == "train"]
        numbers = all(one.labels.ndim == 1 and one.labels.dtype.kind in "iu" for one in self.blocks)
        names = self.class_names
        if keys.get("classes") is None and len(names) == 1:
            yield f"all labels are {names[0]!r}; there must be two classes"
        if not numbers or keys.get("classes") is not None or names:
            return
        top = max(int(one.labels.max(initial=0)) for one in self.blocks)
        present = np.unique(np.concatenate(labels))
        if top >= max(2, sum(map(len, labels))):
            yield f"the labels go up to {top}; number the classes from 0, or write classes=..."
        elif len(missing := np.setdiff1d(np.arange(top + 1), present)):
            told = ", ".join(map(str, missing[:MORE])) + (", ..." if len(missing) > MORE else "")
            yield (
                f"no training sample has class {told}, though labels go up to {top}; number the"
                f" classes from 0 without gaps, or write OwnData(..., classes={top + 1})"
            )
        elif top == 0:
            yield "all labels are 0; there must be two classes, or write OwnData(..., classes=...)"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes: as an object says, or the texts that are its labels."""
        texts = [one.labels for one in self.blocks if one.labels.dtype.kind == "U"]
        if texts and len(texts) == len(self.blocks):
            return tuple(np.unique(np.concatenate(texts)).tolist())
        return next((one.names for one in self.blocks if one.names), ())

    def arrays(self, column: str) -> dict[str, Values]:
        """Join the blocks of each split as an .npz file has them; `column` tells clients apart."""
        found: dict[str, Values] = {}
        names = self.class_names
        for split in SPLITS:
            own = [block for block in self.blocks if block.split == split]
            if not own:
                continue
            images = [to_stored(block.images) for block in own]
            labels = np.concatenate([block.labels for block in own])
            if labels.dtype.kind == "U":
                labels = np.searchsorted(np.array(names), labels)
            found[f"{split}_images"] = np.concatenate(images) if len(own) > 1 else images[0]
            found[f"{split}_labels"] = labels.astype(np.int64)
            if column:
                sizes = [len(block.labels) for block in own]
                found[f"{split}_{column}"] = np.repeat([block.client for block in own], sizes)
        return found | ({"class_names": np.array(names)} if names else {})


def gather(train: Any, test: Any, how: Conversion) -> Gathered:
    """Read everything that was given as training and test data."""
    gathered = Gathered(whole=how.most is None)
    try:
        parts = list(list_parts(train, test))
    except FedmirageError as error:
        gathered.problems.append(str(error))
        return gathered
    gathered.clients = 1 + max(client for _, split, client, _ in parts if split == "train")
    for where, split, client, given in parts:
        try:
            images, labels, names = read_part(where, given, how)
            gathered.problems += check_labels(where, labels)
            gathered.blocks.append(SampleBlock(where, split, client, images, labels, names))
        except DataError as error:
            gathered.problems.append(str(error))
        else:
            if len(images) != len(labels):
                gathered.problems.append(
                    f"{where}: {len(images)} images but {len(labels)} labels; there must be as many"
                    " of both"
                )
            elif not len(labels):
                gathered.problems.append(f"{where}: there is no sample; give some or leave it out")
    return gathered


def read_part(where: str, given: Any, how: Conversion) -> tuple[Values, Values, tuple[str, ...]]:
    """Read one object: inputs with channels first, labels, and names of classes."""
    if isinstance(given, tuple):
        if len(given) != 2 or any(isinstance(one, tuple) for one in given):
            raise DataError(
                f"{where}: a tuple is a pair (images, labels), but this has {len(given)} parts"
                f" ({', '.join(type(one).__name__ for one in given)}); test data go into"
                " OwnData(train, test=...), clients into a list"
            )
        images, labels = to_array(f"{where}: images", given[0]), to_array(where, given[1])
        return how.convert(f"{where}: images", images), flatten(labels), ()
    if hasattr(given, "batch_sampler"):
        raise DataError(f"{where}: a DataLoader has batches; give its .dataset, which has samples")
    if hasattr(given, "dtype") or not (hasattr(given, "__getitem__") or hasattr(given, "__iter__")):
        raise DataError(
            f"{where}: this is {say_kind(given)}; give a pair (images, labels), a Dataset of"
            " torch or of Hugging Face, or a list of these with one per client"
        )
    from fedmirage.api.items import read_items

    return read_items(where, given, how)


def to_array(where: str, given: Any) -> Values:
    """Turn an array, a tensor of any device or nested lists into an array."""
    try:
        return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (ValueError, TypeError, RuntimeError) as error:
        text = str(error).partition("\n")[0]
        raise DataError(f"{where} cannot be turned into an array ({text})") from None


def to_stored(images: Values) -> Values:
    """Put the channels of pictures last, so no reader takes a narrow one's columns for them."""
    return images.transpose(0, 2, 3, 1) if images.dtype == np.uint8 else images


def flatten(labels: Values) -> Values:
    """Take a single column of labels as one label per sample."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def check_labels(where: str, labels: Values) -> Iterable[str]:
    """Return what is wrong with labels by themselves."""
    kind = labels.dtype.kind
    if labels.ndim not in (1, 2):
        return [f"{where}: labels have the shape {labels.shape}; write one per image"]
    if not labels.size or (kind == "U" and labels.ndim == 1):
        return []
    if kind not in ("iu" if labels.ndim == 1 else "biu"):
        why = " (some are missing)" if kind == "f" and np.isnan(labels).any() else ""
        return [
            f"{where}: labels are {labels.dtype}{why}, not whole numbers; number the classes from 0"
            ' (.astype("int64"))'
        ]
    if labels.ndim == 2 and not np.isin(labels, (0, 1)).all():
        return [f"{where}: labels with one column per class must be 0 or 1"]
    if labels.min() < 0:
        below = int((labels < 0).sum())
        return [
            f"{where}: {below} labels are negative, such as {labels.min()}; number the classes from"
            " 0, and leave out samples without a label"
        ]
    return []


def say_shape(shape: tuple[int, ...]) -> str:
    """Say height, width and channels, or the numbers of another shape."""
    if len(shape) != 3:
        return "x".join(map(str, shape))
    channels, height, width = shape
    return f"{height}x{width} with {channels} channel{'s' * (channels > 1)}"
