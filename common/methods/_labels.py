"""How many samples clients have of each class, and the label distribution that follows from it.

Clients send their counts up, and the server sends p(y) down, so that nobody but the server sees the
counts of a single client. Under secure aggregation, not even the server does: only the sum of the
counts is needed for p(y).
"""

import numpy as np
import numpy.typing as npt

from fedmirage.common.method import Section

COUNTS = "label-counts"  # up: (classes,) the number of samples of each class
SHARES = "label-shares"  # down: (classes,) p(y)

# Counts are larger than what secure aggregation clips at, so they are wide.
LABEL_COUNTS = Section(
    COUNTS, "uniform", holds=lambda classes, shape: [(classes,)], least=0, wide=True
)
LABEL_SHARES = Section(SHARES, holds=None)

Counts = npt.NDArray[np.float64]


def label_shares(counts: Counts, smoothing: float = 0.0) -> Counts:
    """p(y) in proportion to the mean counts of the clients, each of which counts `smoothing` more.

    Without smoothing, a class that nobody has is left out of p(y): its share is 0, and it is never
    drawn. Somebody must have something.
    """
    smoothed = counts.astype(np.float64) + smoothing
    return smoothed / float(smoothed.sum())


def client_shares(counts: Counts, smoothing: float = 0.0) -> Counts:
    """tau[i, y]: the share of client i in all samples of class y; `counts` are (clients, classes).

    The shares of a class that nobody has are 0, and no label of it is drawn.
    """
    smoothed = counts.astype(np.float64) + smoothing
    totals = smoothed.sum(axis=0)  # (classes,)
    return smoothed / np.where(totals > 0, totals, 1.0)
