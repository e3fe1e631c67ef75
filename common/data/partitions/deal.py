"""From a table of counts to samples: how many of each class each client gets, then which ones."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]  # (clients, classes) or (clients,)


def deal(
    labels: npt.NDArray[np.int64], counts: Counts, generator: np.random.Generator | None = None
) -> list[Indices]:
    """Give each client its `counts` of every class, in ascending order; a class is shuffled first
    if there is a generator."""
    clients, classes = counts.shape
    by_class = np.argsort(
        labels, kind="stable"
    )  # all samples of class 0 in their own order, then those of class 1, ...
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    hands: list[list[Indices]] = [[] for _ in range(clients)]
    for label in range(classes):
        members = by_class[ends[label - 1] if label else 0 : ends[label]]
        if generator is not None:
            members = generator.permutation(members)
        for hand, piece in zip(hands, np.split(members, np.cumsum(counts[:, label])), strict=False):
            hand.append(piece)
    return [np.sort(np.concatenate(hand)).astype(np.int64) for hand in hands]


def divide_evenly(size: int, shares: int) -> Counts:
    """`size` in `shares` whole numbers that differ by at most one, the larger ones first."""
    return size // shares + (np.arange(shares) < size % shares).astype(np.int64)


def apportion(size: int, shares: npt.NDArray[np.float64]) -> Counts:
    """`size` in whole numbers by `shares`, cut at the rounded-down running sum (as NIID-Bench and
    flwr-datasets cut).

    What rounding down leaves over goes to the last positive share, as there; a share of zero is no
    sample, there sometimes one.
    """
    cuts = (np.cumsum(shares / shares.sum()) * size).astype(np.int64)
    cuts[np.flatnonzero(shares)[-1] :] = size
    return np.diff(cuts, prepend=0)
