"""A data set as its files give it: what the readers hand over, before anything is checked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.errors import DataError

Images = npt.NDArray[np.uint8]  # (samples, channels, height, width)
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Form:
    """What every picture is brought to; None keeps what the file has."""

    size: int | None = None
    channels: int | None = None


@dataclass(frozen=True)
class RawSplit:
    """Pictures in their final form, labels and further columns as they were found."""

    images: Images
    labels: Values
    columns: dict[str, Values] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Both splits; no test split means that a share of the training split is held out."""

    train: RawSplit
    test: RawSplit | None
    classes: tuple[str, ...] = ()  # names, where the files have them


@contextmanager
def reading(path: Path | str, what: str) -> Iterator[None]:
    """Turn whatever a decoder of foreign files raises into a sentence about the file."""
    try:
        yield
    except DataError:
        raise
    except MemoryError:
        raise DataError(
            f"{path} does not fit into memory; write limit=... or size=... smaller, or use a"
            " machine with more"
        ) from None
    # decoders raise what they like: zlib.error, ArrowInvalid, struct.error, EOFError, ...
    except Exception as error:
        detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{path} is damaged or is not {what} ({detail}); get it again") from error


def number_values(parts: Sequence[Values], name: str) -> list[npt.NDArray[np.int64]]:
    """One column of all splits as numbers: whole numbers stay, texts are counted in alphabetical
    order."""
    if all(part.dtype.kind in "iu" for part in parts):
        return [part.astype(np.int64) for part in parts]
    if not all(part.dtype.kind == "U" for part in parts):
        kinds = " and ".join(sorted({str(part.dtype) for part in parts}))
        raise DataError(
            f"columns: {name!r} holds {kinds}; it must hold whole numbers or texts, one a sample,"
            " none missing"
        )
    known = np.unique(np.concatenate(parts))
    return [np.searchsorted(known, part).astype(np.int64) for part in parts]
