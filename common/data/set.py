"""A loaded data set: its inputs, labels, and the facts that a run needs about them."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Task = Literal["single-label", "multi-label"]
# Where the class names come from: a published set, somebody's own folders, files or dataset line,
# or nowhere, in which case the classes are only numbered.
NamedBy = Literal["published", "own", "numbers"]


@dataclass(frozen=True)
class Split:
    """One split, indexed by sample. Arrays may be read-only maps of a cache file.

    Inputs are pictures, as bytes, or anything else that has a fixed shape (rows of a table,
    signals, embeddings), as floats. The first axis of an input is its channels: the colours of a
    picture, the columns of a table. NaN stands for a value that is missing.
    """

    # (samples, channels, height, width) uint8 of pictures, else (samples, channels, ...) float32
    images: npt.NDArray[Any]
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
    mean: tuple[float, ...]  # per channel; of pixels in [0, 1] where there are pictures
    std: tuple[float, ...]
    fingerprint: str  # of the content, not of the files: what the server and its nodes compare
    named_by: NamedBy = "published"
    domains: tuple[str, ...] = ()  # names of the numbers in the column "domain", if there is one
    divided: bool = False  # the files have no test split: this one was held out of the samples
    # the channels, as (first, behind the last), of each category: exactly one of them is 1
    categories: tuple[tuple[int, int], ...] = ()
    skipped: int = 0  # pictures that could not be read and are left out (skip=True)
    schema: str = ""  # of a table: what its columns mean (`Schema.text`)
    # by further column: the texts that its numbers stand for, where the files have texts
    column_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input; (channels, height, width) of a picture."""
        return self.train.images.shape[1:]

    @property
    def pictures(self) -> bool:
        """Whether the inputs are pictures, which can be shown, cropped and flipped."""
        return self.train.images.dtype == np.uint8

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
