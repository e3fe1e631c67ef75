"""The picture of differences to the baseline and to the own placebo, with their intervals."""

import statistics
from collections.abc import Callable, Collection
from typing import Any

from fedmirage.comparison.outcome import Outcome, Standing
from fedmirage.comparison.statistics import CONFIDENCE, Difference
from fedmirage.comparison.table import NONE, say_difference
from fedmirage.report.groups import Group
from fedmirage.report.html import PageSection, element, join, plot, varied_table

Compare = Callable[[Standing], Difference | None]
HEAD = ("Methods", "Percentage points", "Seeds", "Verdict", "Smallest visible", "Seeds missing")
FAR = 2.5  # times as far out as the middle one of all rows lies outside the axis


def differences(group: Group) -> PageSection | None:
    """Draw all differences, the largest first; there is nothing to draw without any."""
    options, tables, names = [], [], list(group.labels.values())
    for label, compare in comparisons(group.outcome).items():
        found = find_rows(group, compare)
        if found:
            ranked = sorted(found, key=lambda number: -found[number].mean)
            rows = [_row(number, found[number]) for number in ranked]
            options.append({"label": label, "rows": rows, "range": useful_range(found.values())})
            cells = [
                [names[number], say_difference(one), one.pairs, one.verdict, *say_limits(one)]
                for number in ranked
                if (one := found[number])
            ]
            tables.append(varied_table(label, HEAD, cells))
    if not options:
        return None
    what = group.outcome.question.what
    said = (
        f"Differences of the mean {what} of the last five evaluated rounds, paired over seeds,"
        f" with {100 * CONFIDENCE:.0f} % intervals of a paired t-test. A hollow mark is undecided,"
        " and an arrow points at what lies outside the picture. Verdicts are corrected for all"
        " methods of the group. The numbers also say which differences these seeds could have"
        " shown, and how many more would settle the question."
    )
    label = f"Differences of the last-five {what} in percentage points"
    spec = {"kind": "intervals", "label": label, "options": options}
    drawn = plot("differences", label, join(tables))
    html = join((drawn, element("p", said, class_="note")))  # the picture before what explains it
    return PageSection("differences", "", html, {"differences": spec})


def comparisons(outcome: Outcome) -> dict[str, Compare]:
    """Name what rows are compared with."""
    return {f"To {outcome.baseline}": outcome.to_baseline, "To its placebo": outcome.to_placebo}


def say_limits(difference: Difference) -> tuple[str, str]:
    """Write the smallest visible difference and the missing seeds, where they are known."""
    visible, missing = difference.smallest_visible, difference.seeds_missing
    return (
        NONE if visible is None else f"{100 * visible:.2f}",
        NONE if missing is None else str(missing),
    )


def find_rows(group: Group, compare: Compare) -> dict[int, Difference]:
    """Find the differences that exist, by the number of their row."""
    found = map(compare, group.outcome.standings)
    return {number: one for number, one in enumerate(found) if one is not None}


def useful_range(found: Collection[Difference]) -> list[float]:
    """Choose the ends of the axis: zero, and all intervals that do not lie or reach far away."""
    margins = [one.margin or 0.0 for one in found]
    reach = [abs(one.mean) + margin for one, margin in zip(found, margins, strict=True)]
    limit = FAR * statistics.median_low(reach) or max(reach)
    near = [pair for pair in zip(found, margins, strict=True) if abs(pair[0].mean) <= limit]
    low = max(-limit, min([0.0, *(one.mean - margin for one, margin in near)]))
    high = min(limit, max([0.0, *(one.mean + margin for one, margin in near)]))
    return [low, high]


def _row(number: int, one: Difference) -> dict[str, Any]:
    known = {"series": number, "mean": one.mean, "margin": one.margin}
    return {**known, "seeds": one.pairs, "verdict": one.verdict}
