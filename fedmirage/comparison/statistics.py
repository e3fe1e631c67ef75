"""Means and paired differences over seeds, and what may be said about them."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """The mean of some values and their standard deviation, which one value does not have."""

    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Difference:
    """The mean difference of pairs with the same seed, and half the width of its interval."""

    mean: float
    margin: float | None  # None for one pair, which says nothing about chance
    pairs: int

    @property
    def verdict(self) -> str:
        """Return "better" or "worse" only if the interval excludes zero; "" claims nothing."""
        if self.margin is None or abs(self.mean) <= self.margin:
            return ""
        return "better" if self.mean > 0 else "worse"


def spread(values: Sequence[float]) -> Spread | None:
    """Summarise values; there is nothing to summarise in none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation)


def paired_difference(
    values: Mapping[int, float], others: Mapping[int, float]
) -> Difference | None:
    """Compare two rows over the seeds that both have, by the interval of a paired t-test.

    A seed decides clients, initial weights and sampling, so that pairs differ in the method alone,
    and what seeds do to both of them drops out.
    """
    differences = [values[seed] - others[seed] for seed in values if seed in others]
    summary = spread(differences)
    if summary is None:
        return None
    count = len(differences)
    if summary.deviation is None:
        return Difference(summary.mean, None, count)
    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    return Difference(summary.mean, quantile * summary.deviation / math.sqrt(count), count)
