"""What a data set is once it is loaded: bytes in memory (or mapped from the cache), labels, and
what a run must know of them."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Task = Literal["single-label", "multi-label"]
# Whose names the classes have: a published set's, those of somebody's own folders, files or dataset
# line, or none, and they are just numbered.
NamedBy = Literal["published", "own", "numbers"]


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
    named_by: NamedBy = "published"
    domains: tuple[str, ...] = ()  # names of the numbers in the column "domain", if there is one
    divided: bool = False  # the files have no test split: the one here was held out of them

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def everything(self) -> Split:
        """Both splits as one, test samples last."""
        splits = [self.train, self.test]
        columns = {
            name: np.concatenate([split.columns[name] for split in splits])
            for name in self.train.columns
        }
        images = np.concatenate([split.images for split in splits])
        return Split(images, np.concatenate([split.labels for split in splits]), columns)
