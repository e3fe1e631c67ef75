"""Chooses test samples where the files have no test split, and the samples that `limit` keeps."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.files.raw import Raw, RawSplit, Values
from fedmirage.common.data.set import Split
from fedmirage.common.seeds import numpy_generator

LEAST_TEST = 200  # test samples that `limit` always keeps: with fewer, an accuracy says little

Mask = npt.NDArray[np.bool_]
AnySplit = TypeVar("AnySplit", Split, RawSplit)


def hold_out_test(raw: Raw, share: float) -> Raw:
    """Turn a share of the training split into the test split of a set whose files have none."""
    held = choose_held_out(raw.train.labels, share)
    train, test = (take(raw.train, np.flatnonzero(mask)) for mask in (~held, held))
    return replace(raw, train=train, test=test)


def choose_held_out(labels: Values, share: float) -> Mask:
    """Return a mask that is True for test samples, by a fixed draw of the same share per class.

    Every class keeps at least one training sample.
    """
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
    """Keep `limit` training samples and a fifth as many test samples, but at least 200 of those.

    They are drawn with the content's fingerprint as seed, so that every node keeps the same ones.
    """
    kept = []
    fewer = max(limit // 5, LEAST_TEST)
    for split, most, purpose in ((train, limit, "train"), (test, fewer, "test")):
        generator = numpy_generator(0, "limit", purpose, fingerprint)
        order = generator.permutation(len(split.labels))[:most]
        kept.append(take(split, np.sort(order)))
    return kept[0], kept[1]


def take(split: AnySplit, index: npt.NDArray[np.int64]) -> AnySplit:
    """Return a split with only the indexed samples."""
    columns = {name: values[index] for name, values in split.columns.items()}
    return replace(split, images=split.images[index], labels=split.labels[index], columns=columns)
