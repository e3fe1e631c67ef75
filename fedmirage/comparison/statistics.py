"""Means and paired differences over seeds, and what may be said about them."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
ERROR = 1 - CONFIDENCE  # of all claims that are made at once
EQUIVALENCE = 0.015  # accuracies that differ by less are as good as equal
MANY = 1000  # more seeds than anybody runs

AHEAD, BEHIND, UNDECIDED = "ahead", "behind", "undecided"
EQUIVALENT = f"equivalent within {100 * EQUIVALENCE:g} points"
VERDICTS = (AHEAD, BEHIND, EQUIVALENT, UNDECIDED)


@dataclass(frozen=True)
class Spread:
    """The mean of some values and their standard deviation, which one value does not have."""

    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Difference:
    """The mean difference of pairs with the same seed, and half the width of its interval.

    One pair says nothing about chance, so all but the mean is None then.
    """

    mean: float
    margin: float | None
    pairs: int
    deviation: float | None = None  # of the differences
    p_different: float | None = None  # of a paired t-test against zero
    p_equivalent: float | None = None  # of two one-sided ones against EQUIVALENCE, the larger one
    share: int = 1  # how many comparisons at once share ERROR, as none of them shows a difference

    @property
    def verdict(self) -> str:
        """Claim a lead or a lag, else equivalence, only where its test allows that."""
        if self.p_different is not None and self.p_different <= ERROR:
            return AHEAD if self.mean > 0 else BEHIND
        proven = self.p_equivalent is not None and self.p_equivalent <= ERROR
        return EQUIVALENT if proven else UNDECIDED

    @property
    def smallest_visible(self) -> float | None:
        """The smallest difference that these seeds could have shown with this spread."""
        if self.deviation is None:
            return None
        return _half_width(self.deviation, self.pairs, ERROR / self.share)

    @property
    def seeds_missing(self) -> int | None:
        """How many more seeds would settle it if mean and spread stayed; None beyond MANY."""
        if self.verdict != UNDECIDED:
            return 0
        if self.deviation is None:
            return None
        level, mean = ERROR / self.share, abs(self.mean)
        for count in range(self.pairs + 1, self.pairs + MANY + 1):
            differs = mean > _half_width(self.deviation, count, level)
            same = mean + _half_width(self.deviation, count, 2 * level) < EQUIVALENCE
            if differs or same:
                return count - self.pairs
        return None

    def as_values(self) -> dict[str, Any]:
        """List everything that is known of it in plain values."""
        found = {"verdict": self.verdict, "smallest_visible": self.smallest_visible}
        return {**asdict(self), **found, "seeds_missing": self.seeds_missing}


def spread(values: Sequence[float]) -> Spread | None:
    """Summarise values; there is nothing to summarise in none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation)


def paired_difference(
    values: Mapping[int, float], others: Mapping[int, float]
) -> Difference | None:
    """Compare two rows over the seeds that both have, by paired t-tests.

    A seed decides clients, initial weights and sampling, so pairs differ in the method alone, and
    what seeds do to both of them drops out.
    """
    differences = [values[seed] - others[seed] for seed in values if seed in others]
    summary = spread(differences)
    if summary is None:
        return None
    mean, deviation, count = summary.mean, summary.deviation, len(differences)
    if deviation is None:
        return Difference(mean, None, count)
    return Difference(
        mean,
        _half_width(deviation, count, ERROR),
        count,
        deviation,
        2 * _exceeding(abs(mean), deviation, count),
        _exceeding(EQUIVALENCE - abs(mean), deviation, count),
    )


def judge_together(differences: Sequence[Difference]) -> list[Difference]:
    """Correct the p-values of comparisons that are made at once, by Holm's method.

    ERROR then is the chance of any wrong lead or lag among them, and that of any wrong equivalence.
    """
    tested = [one for one in differences if one.deviation is not None]
    different = holm([one.p_different or 0.0 for one in tested])
    equivalent = holm([one.p_equivalent or 0.0 for one in tested])
    # A larger difference would come first among those without a claim, who share ERROR.
    share = max(1, sum(p > ERROR for p in different))
    judged = iter(
        replace(one, p_different=p, p_equivalent=q, share=share)
        for one, p, q in zip(tested, different, equivalent, strict=True)
    )
    return [one if one.deviation is None else next(judged) for one in differences]


def holm(p_values: Sequence[float]) -> list[float]:
    """Multiply the smallest of m p-values by m, the next by m - 1 and so on, in rising order."""
    corrected, largest = list(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda one: p_values[one])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected


def _half_width(deviation: float, count: int, level: float) -> float:
    """Return half the width of a mean's two-sided interval that misses with chance `level`."""
    return float(stdtrit(count - 1, 1 - level / 2)) * deviation / math.sqrt(count)


def _exceeding(distance: float, deviation: float, count: int) -> float:
    """Return the one-sided p-value of a mean that lies this far from a bound."""
    if deviation == 0:
        return 0.0 if distance > 0 else 0.5
    return float(stdtr(count - 1, -distance * math.sqrt(count) / deviation))
