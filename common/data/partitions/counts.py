"""From a table of counts (clients by classes) to the samples of every client."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]  # (clients, classes) or (clients,)


def split_by_counts(
    labels: npt.NDArray[np.int64], counts: Counts, generator: np.random.Generator | None = None
) -> list[Indices]:
    """Give each client its `counts` of every class, as ascending positions.

    With a generator, every class is shuffled before it is split.
    """
    clients, classes = counts.shape
    # all samples of class 0 in their own order, then those of class 1, ...
    by_class = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    portions: list[list[Indices]] = [[] for _ in range(clients)]
    for label in range(classes):
        members = by_class[ends[label - 1] if label else 0 : ends[label]]
        if generator is not None:
            members = generator.permutation(members)
        pieces = np.split(members, np.cumsum(counts[:, label]))
        for portion, piece in zip(portions, pieces, strict=False):
            portion.append(piece)
    return [np.sort(np.concatenate(portion)).astype(np.int64) for portion in portions]


def split_evenly(
    labels: npt.NDArray[np.int64], portions: int, generator: np.random.Generator
) -> list[Indices]:
    """Shuffle every class and split it evenly; each class begins where the last one ended."""
    sizes = np.bincount(labels, minlength=1)
    firsts = np.cumsum(sizes) - sizes
    counts = [
        np.roll(divide_evenly(int(size), portions), int(first))
        for size, first in zip(sizes, firsts, strict=True)
    ]
    return split_by_counts(labels, np.stack(counts, axis=1), generator)


def divide_evenly(size: int, shares: int) -> Counts:
    """Divide `size` into `shares` whole numbers that differ by at most one, larger ones first."""
    return size // shares + (np.arange(shares) < size % shares).astype(np.int64)


def apportion(size: int, shares: npt.NDArray[np.float64]) -> Counts:
    """Divide `size` into whole numbers in proportion to `shares`.

    Like NIID-Bench and flwr-datasets, it cuts at the rounded-down running sum and gives the
    remainder to the last positive share. Unlike there, a share of zero never gets a sample.
    """
    cuts = (np.cumsum(shares / shares.sum()) * size).astype(np.int64)
    cuts[np.flatnonzero(shares)[-1] :] = size
    return np.diff(cuts, prepend=0)
