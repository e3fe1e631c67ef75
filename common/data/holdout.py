"""Which samples are the test set where the files do not say, and which ones remain under
`limit`."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from common.data.files.raw import Raw, RawSplit, Values
from common.data.set import Split
from common.seeds import numpy_generator

LEAST_TEST = 200  # a test set that `limit` shrinks keeps so many: below, an accuracy says little

Mask = npt.NDArray[np.bool_]
AnySplit = TypeVar("AnySplit", Split, RawSplit)


def hold_out_test(raw: Raw, share: float) -> Raw:
    """A set whose files have no test split: a share of the training split becomes one."""
    held = choose_held_out(raw.train.labels, share)
    return replace(
        raw,
        train=take(raw.train, np.flatnonzero(~held)),
        test=take(raw.train, np.flatnonzero(held)),
    )


def choose_held_out(labels: Values, share: float) -> Mask:
    """True for the test samples: the same share of every class, chosen by a fixed draw; every class
    keeps a training sample."""
    held = np.zeros(len(labels), np.bool_)
    groups = (
        [np.arange(len(labels))]
        if labels.ndim > 1
        else [np.flatnonzero(labels == label) for label in np.unique(labels)]
    )
    for number, group in enumerate(groups):
        chosen = min(round(share * len(group)), len(group) - 1)
        held[numpy_generator(0, "held-out", number).permutation(group)[: max(chosen, 0)]] = True
    return held


def limit_samples(train: Split, test: Split, limit: int, fingerprint: str) -> tuple[Split, Split]:
    """The first `limit` training samples and a fifth as many test samples, at least 200, in an
    order that the content gives."""
    kept = []
    for split, most, purpose in (
        (train, limit, "train"),
        (test, max(limit // 5, LEAST_TEST), "test"),
    ):
        order = numpy_generator(0, "limit", purpose, fingerprint).permutation(len(split.labels))[
            :most
        ]
        kept.append(take(split, np.sort(order)))
    return kept[0], kept[1]


def take(split: AnySplit, index: npt.NDArray[np.int64]) -> AnySplit:
    """The indexed samples."""
    columns = {name: values[index] for name, values in split.columns.items()}
    return replace(split, images=split.images[index], labels=split.labels[index], columns=columns)
