"""A loaded data set: pictures as bytes, labels, and the facts that a run needs about them."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Task = Literal["single-label", "multi-label"]
# Where the class names come from: a published set, somebody's own folders, files or dataset line,
# or nowhere, in which case the classes are only numbered.
NamedBy = Literal["published", "own", "numbers"]


@dataclass(frozen=True)
class Split:
    """One split, indexed by sample. Arrays may be read-only maps of a cache file."""

    images: npt.NDArray[np.uint8]  # (samples, channels, height, width)
    # (samples,) class numbers, or (samples, classes) of 0 and 1
    labels: npt.NDArray[np.int64] | npt.NDArray[np.uint8]
    # further columns such as "user" or "domain", one number per sample
    columns: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Both splits and their description; two sets are equal only if they are the same object."""

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
    divided: bool = False  # the files have no test split: this one was held out of the samples

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def everything(self) -> Split:
        """Both splits joined into one, test samples last."""
        splits = [self.train, self.test]
        columns = {
            name: np.concatenate([split.columns[name] for split in splits])
            for name in self.train.columns
        }
        images = np.concatenate([split.images for split in splits])
        return Split(images, np.concatenate([split.labels for split in splits]), columns)
