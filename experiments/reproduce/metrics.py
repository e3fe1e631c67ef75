"""Which number of a run a table means, read from the lines of its rounds.

metric   where it stands in a round's line of results.jsonl, with "/" between the keys:
         "accuracy", "evaluation/accuracy_domain_mean", "evaluation/domains/svhn", ...
when     last: in the last round; best: the best of all rounds; last-five: the mean of the last
         five; sum: over all rounds; reached: the first round whose metric is at least `target`
"""

import statistics
from collections.abc import Sequence
from typing import Any

from experiments.reproduce.tables import When
from fedmirage.comparison.scores import LAST

WORDS = {
    "last": "last round",
    "best": "best round",
    "last-five": "mean of the last five rounds",
    "sum": "sum over all rounds",
    "reached": "rounds to the target",
}


def look_up(line: dict[str, Any], metric: str) -> float | None:
    """Find a metric in the line of a round; None if it is not there or empty."""
    found: Any = line
    for key in metric.split("/"):
        found = found.get(key) if isinstance(found, dict) else None
    return None if found is None else float(found)


def read_metric(
    lines: Sequence[dict[str, Any]], metric: str, when: When, target: float | None = None
) -> float | None:
    """Compute what a cell shows; None if the run never had it, or never reached the target."""
    found = [(int(line["round"]), look_up(line, metric)) for line in lines]
    values = [(number, value) for number, value in found if value is not None]
    if not values:
        return None
    numbers = [value for _, value in values]
    if when == "reached":
        assert target is not None
        return next((float(number) for number, value in values if value >= target), None)
    computed = {
        "last": numbers[-1],
        "best": max(numbers),
        "last-five": statistics.fmean(numbers[-LAST:]),
        "sum": sum(numbers),
    }
    return computed[when]


def in_per_cent(metric: str, when: When) -> bool:
    """Whether a cell shows a share in per cent; rounds and seconds stay as they are."""
    return when not in ("reached", "sum") and not metric.startswith("seconds")
