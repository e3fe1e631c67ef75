"""Differences to FedAvg and to the own placebo, with their intervals."""

from collections.abc import Callable
from typing import Any

from fedmirage.comparison.outcome import Outcome, Standing
from fedmirage.comparison.statistics import CONFIDENCE, Difference
from fedmirage.comparison.table import say_difference
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, join, plot_section, table

Compare = Callable[[Outcome, Standing], Difference | None]
TO: dict[str, Compare] = {
    "To FedAvg": lambda outcome, standing: outcome.to_fedavg(standing),
    "To its placebo": lambda outcome, standing: outcome.to_placebo(standing),
}


def differences(group: Group) -> PageSection | None:
    """Draw all differences; there is no section if nothing can be compared."""
    options, tables = [], []
    for label, compare in TO.items():
        rows = find_rows(group, compare)
        if rows:
            options.append({"label": label, "rows": rows})
            tables.append(numbers(group, label, compare))
    if not options:
        return None
    label = "Differences of the last-five accuracy in percentage points"
    said = (
        "Differences of the mean accuracy of the last five evaluated rounds, paired over seeds,"
        f" with {100 * CONFIDENCE:.0f} % intervals of a paired t-test. A filled mark has an"
        " interval that excludes zero; a hollow one claims nothing."
    )
    spec = {"kind": "intervals", "label": label, "options": options}
    return plot_section("differences", "Differences", said, join(tables), spec)


def find_rows(group: Group, compare: Compare) -> list[dict[str, Any]]:
    """List the differences that exist, by the number of their row."""
    rows = []
    for number, standing in enumerate(group.outcome.standings):
        found = compare(group.outcome, standing)
        if found is not None:
            row = {"series": number, "mean": found.mean, "margin": found.margin}
            rows.append({**row, "seeds": found.pairs, "verdict": found.verdict})
    return rows


def numbers(group: Group, label: str, compare: Compare) -> Html:
    """Write the differences as a table."""
    rows = []
    for standing in group.outcome.standings:
        found = compare(group.outcome, standing)
        if found is not None:
            name = group.labels[standing.entry.name]
            rows.append([name, say_difference(found), found.pairs, found.verdict or "no claim"])
    return table(label, ("Methods", "Percentage points", "Seeds", "Verdict"), rows)
