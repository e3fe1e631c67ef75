"""What a client lacks: the labels of the images that FedCOG makes (A.1.1), and the weights of its
two losses (A.3.2)."""

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]  # (classes,)


def complement(counts: Counts) -> Counts:
    """max(d) - d: how many samples of each class would balance the client; all zero where it is
    balanced."""
    return np.asarray(counts.max(initial=0) - counts)


def allocate(samples: int, shares: Counts) -> Counts:
    """`samples` in whole numbers by `shares`, by largest remainder, ties to the smaller class: no
    sample is lost.

    Shares that are all zero ask for every class alike.
    """
    shares = shares if shares.any() else np.ones_like(shares)
    whole, rest = np.divmod(samples * shares, shares.sum())
    missing = samples - int(whole.sum())
    whole[np.argsort(-rest, kind="stable")[:missing]] += 1
    return whole


def balancing_weights(counts: Counts) -> tuple[float, float]:
    """w_real = |d| / (|d| + |max(d) - d|) = |d| / (C max d) and w_kd = 1 - w_real: 1 and 0 for a
    balanced client."""
    real, lacking = int(counts.sum()), int(complement(counts).sum())
    return (real / (real + lacking), lacking / (real + lacking)) if lacking else (1.0, 0.0)
