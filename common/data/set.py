"""What a data set is once it is loaded: bytes in memory (or mapped from the cache), labels, and
what a run must know of them."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Task = Literal["single-label", "multi-label"]


@dataclass(frozen=True)
class Split:
    """One split, indexed by sample. Arrays may be read-only maps of a cache file."""

    images: npt.NDArray[np.uint8]  # (samples, channels, height, width)
    labels: (
        npt.NDArray[np.int64] | npt.NDArray[np.uint8]
    )  # (samples,) class numbers, or (samples, classes) of 0 and 1
    columns: dict[str, npt.NDArray[np.int64]] = field(
        default_factory=dict
    )  # e.g. "user" or "domain", one number a sample

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class DataSet:
    """A loaded data set: the two splits and their description."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    task: Task
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]
    fingerprint: str  # of the content, not of the files: what the server and its nodes compare

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width
