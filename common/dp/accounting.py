"""The budget of Gaussian releases in which a client always takes part; it is known exactly.

Releases with the multipliers s_1, s_2, ... are together one release with the multiplier
1 / sqrt(sum_i 1 / s_i^2).
"""

import math
from collections.abc import Iterable


def compose_gaussians(multipliers: Iterable[float], delta: float) -> float:
    """Compute the epsilon of such releases together; a multiplier of 0 hides nothing."""
    scales = list(multipliers)
    if not scales:
        return 0.0
    if not all(scales):
        return math.inf
    # This import takes 0.2 s, which only a private run should spend.
    from dp_accounting import get_epsilon_gaussian

    together = 1 / math.sqrt(sum(scale**-2 for scale in scales))
    return float(get_epsilon_gaussian(together, delta))
