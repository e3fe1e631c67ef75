"""What a client lacks decides which labels FedCOG generates, and how its two losses are weighted.

See A.1.1 for the labels and A.3.2 for the weights.
"""

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]  # (classes,)


def complement(counts: Counts) -> Counts:
    """max(d) - d: the number of samples per class that would balance the client."""
    return np.asarray(counts.max(initial=0) - counts)


def allocate(samples: int, shares: Counts) -> Counts:
    """Divide `samples` in proportion to `shares`, in whole numbers, so that no sample is lost.

    The largest remainders are rounded up; ties go to the class with the smaller number. If all
    shares are zero, every class gets the same.
    """
    shares = shares if shares.any() else np.ones_like(shares)
    whole, rest = np.divmod(samples * shares, shares.sum())
    missing = samples - int(whole.sum())
    whole[np.argsort(-rest, kind="stable")[:missing]] += 1
    return whole


def balancing_weights(counts: Counts) -> tuple[float, float]:
    """w_real = |d| / (|d| + |max(d) - d|) = |d| / (C max d), and w_kd = 1 - w_real.

    A balanced client has 1 and 0.
    """
    real, lacking = int(counts.sum()), int(complement(counts).sum())
    return (real / (real + lacking), lacking / (real + lacking)) if lacking else (1.0, 0.0)
