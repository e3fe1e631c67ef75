"""Differences to FedAvg and to the own placebo, with their intervals."""

from collections.abc import Callable

from fedmirage.comparison.outcome import Outcome, Standing
from fedmirage.comparison.statistics import CONFIDENCE, Difference
from fedmirage.comparison.table import NONE, say_difference
from fedmirage.report.groups import Group
from fedmirage.report.html import PageSection, join, plot_section, table

Compare = Callable[[Outcome, Standing], Difference | None]
TO: dict[str, Compare] = {
    "To FedAvg": lambda outcome, standing: outcome.to_fedavg(standing),
    "To its placebo": lambda outcome, standing: outcome.to_placebo(standing),
}

HEAD = ("Methods", "Percentage points", "Seeds", "Verdict", "Smallest visible", "Seeds missing")


def differences(group: Group) -> PageSection | None:
    """Draw all differences; there is no section if nothing can be compared."""
    options, tables = [], []
    for label, compare in TO.items():
        found = find_rows(group, compare)
        if found:
            rows = [
                {"series": number, "mean": one.mean, "margin": one.margin}
                | {"seeds": one.pairs, "verdict": one.verdict}
                for number, one in found.items()
            ]
            options.append({"label": label, "rows": rows})
            names = list(group.labels.values())
            cells = [
                [names[number], say_difference(one), one.pairs, one.verdict, *say_limits(one)]
                for number, one in found.items()
            ]
            tables.append(table(label, HEAD, cells))
    if not options:
        return None
    label = "Differences of the last-five accuracy in percentage points"
    said = (
        "Differences of the mean accuracy of the last five evaluated rounds, paired over seeds,"
        f" with {100 * CONFIDENCE:.0f} % intervals of a paired t-test. A hollow mark is undecided."
        " Verdicts are corrected for all methods of the group; the last two columns say which"
        " differences these seeds could have shown, and how many more would settle the question."
    )
    spec = {"kind": "intervals", "label": label, "options": options}
    return plot_section("differences", "Differences", said, join(tables), spec)


def say_limits(difference: Difference) -> tuple[str, str]:
    """Write the smallest visible difference and the missing seeds, where they are known."""
    visible, missing = difference.smallest_visible, difference.seeds_missing
    return (
        NONE if visible is None else f"{100 * visible:.2f}",
        NONE if missing is None else str(missing),
    )


def find_rows(group: Group, compare: Compare) -> dict[int, Difference]:
    """Find the differences that exist, by the number of their row."""
    found = [compare(group.outcome, standing) for standing in group.outcome.standings]
    return {number: one for number, one in enumerate(found) if one is not None}
