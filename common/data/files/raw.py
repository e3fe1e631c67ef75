"""A data set as its files have it: what the readers return, before anything is checked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedmirage.common.errors import DataError

Images = npt.NDArray[np.uint8]  # (samples, channels, height, width)
Rows = npt.NDArray[np.float32]  # (samples, channels, ...) of inputs that are no pictures
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class PictureForm:
    """How every picture is read: its size and channels, where None keeps those of the file."""

    size: int | None = None
    channels: int | None = None
    skip: bool = False  # leave out a picture that cannot be read, instead of refusing all


@dataclass(frozen=True)
class RawSplit:
    """Inputs in their final form, labels and further columns as they were found."""

    images: Values  # bytes (Images), or float32 (Rows)
    labels: Values
    columns: dict[str, Values] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()  # a sentence for each picture that could not be read

    def without(self, lost: Mapping[int, str]) -> "RawSplit":
        """Drop the labels and column values of pictures that were left out, by their positions."""
        if not lost:
            return self
        positions = list(lost)
        columns = {name: np.delete(values, positions, 0) for name, values in self.columns.items()}
        labels = np.delete(self.labels, positions, 0)
        return RawSplit(self.images, labels, columns, tuple(lost.values()))


@dataclass(frozen=True)
class Raw:
    """Both splits; without a test split, a share of the training split will be held out."""

    train: RawSplit
    test: RawSplit | None
    classes: tuple[str, ...] = ()  # names, where the files have them
    # mean and standard deviation of every channel, where the inputs are no pictures
    scale: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    categories: tuple[tuple[int, int], ...] = ()  # see DataSet
    schema: str = ""  # see DataSet
    column_names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # see DataSet

    def change(self, make: Callable[[RawSplit, str], RawSplit]) -> "Raw":
        """Make a set of both splits, each of which is changed on its own, with its name."""
        assert self.test is not None
        return Raw(make(self.train, "train"), make(self.test, "test"))


@contextmanager
def reading(path: Path | str, what: str) -> Iterator[None]:
    """Turn whatever a decoder of foreign files raises into a sentence about the file."""
    try:
        yield
    except DataError:
        raise
    except MemoryError:
        raise DataError(
            f"{path} does not fit into memory; write a smaller limit= or size=, or use a machine"
            " with more memory"
        ) from None
    # Decoders raise many kinds: zlib.error, ArrowInvalid, struct.error, EOFError, ...
    except Exception as error:
        detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{path} is damaged or is not {what} ({detail}); get it again") from error


def number_values(parts: Sequence[Values], name: str) -> list[npt.NDArray[np.int64]]:
    """Turn a column of all splits into numbers: whole numbers stay, texts are numbered in order."""
    if all(part.dtype.kind in "iu" for part in parts):
        return [part.astype(np.int64) for part in parts]
    if not all(part.dtype.kind == "U" for part in parts):
        kinds = " and ".join(sorted({str(part.dtype) for part in parts}))
        raise DataError(
            f"columns: {name!r} holds {kinds}; it must hold whole numbers or texts, one per sample,"
            " none missing"
        )
    known = np.unique(np.concatenate(parts))
    return [np.searchsorted(known, part).astype(np.int64) for part in parts]


def list_texts(parts: Sequence[Values]) -> tuple[str, ...]:
    """List the texts that `number_values` numbers, in their order; none if they are numbers."""
    texts = all(part.dtype.kind == "U" for part in parts)
    return tuple(np.unique(np.concatenate(parts)).tolist()) if texts else ()
