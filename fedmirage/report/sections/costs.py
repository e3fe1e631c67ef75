"""Where time and bytes go, by phase of a round."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from fedmirage.common.wire.metrics import TIMES
from fedmirage.report.bands import brief
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, join, paragraph, plot_section, table
from fedmirage.report.runs import ReportedRun

PHASES = {"preparation": "preparation", "clients": "clients"}
PHASES |= {"aggregate": "server", "evaluate": "evaluation"}
REST = "rest"
Parts = Callable[[ReportedRun], Mapping[str, float]]


def phases(group: Group) -> PageSection:
    """Draw the seconds and the bytes of a whole run, a mean over seeds."""
    found = {
        "Seconds": (_mean_of(group, seconds_of), 1.0),
        "Megabytes": (_mean_of(group, bytes_of), 1e6),
    }
    within = _mean_of(group, method_seconds_of)
    options, tables = [], []
    for label, (rows, unit) in found.items():
        if rows:
            options.append(_option(group, label, rows, unit))
            tables.append(_numbers(group, f"{label} of a run, by phase", rows, unit))
    if within:
        caption = "Seconds of methods in clients, summed over clients; part of the clients' time"
        tables.append(_numbers(group, caption, within, 1.0))
    if not options:
        return PageSection("phases", "Time and bytes", paragraph("No round is over yet."))
    label = "Seconds and megabytes of a run by phase"
    said = (
        "Means over seeds of whole runs, rounds that were taken over from FedAvg included. The"
        " clients' phase lasts until the last answer, sending included; server is aggregation and"
        " what methods do there."
    )
    spec = {"kind": "bars", "label": label, "options": options}
    return plot_section("phases", "Time and bytes", said, join(tables), spec)


def seconds_of(run: ReportedRun) -> dict[str, float]:
    """Add up the phases of all rounds; what no phase accounts for is the rest."""
    found: dict[str, float] = defaultdict(float)
    for line in run.rounds:
        times = line.get("seconds", {})
        known = {label: times[name] for name, label in PHASES.items() if name in times}
        for label, value in known.items():
            found[label] += value
        if known and "round" in times:
            found[REST] += max(0.0, times["round"] - sum(known.values()))
    return found


def method_seconds_of(run: ReportedRun) -> dict[str, float]:
    """Add up what methods took on clients, by name."""
    found: dict[str, float] = defaultdict(float)
    for client in (client for line in run.rounds for client in line.get("clients", [])):
        for name, value in client.items():
            if name.startswith(TIMES) and value is not None:
                found[name.removeprefix(TIMES)] += value
    return found


def bytes_of(run: ReportedRun) -> dict[str, float]:
    """Add up what was sent to clients and by them."""
    if not run.rounds:
        return {}
    directions = {"to the server": "bytes_up", "to the clients": "bytes_down"}
    return {
        label: float(sum(line.get(name, 0) for line in run.rounds))
        for label, name in directions.items()
    }


def _mean_of(group: Group, parts: Parts) -> dict[int, dict[str, float]]:
    """Return the parts of every row that has any, by the row's number."""
    found = {}
    for number, runs in enumerate(group.runs.values()):
        known = [told for run in runs.values() if (told := parts(run))]
        names = dict.fromkeys(name for told in known for name in told)
        if known:
            found[number] = {
                name: statistics.fmean(told.get(name, 0.0) for told in known) for name in names
            }
    return found


def _option(
    group: Group, label: str, rows: Mapping[int, Mapping[str, float]], unit: float
) -> dict[str, Any]:
    names = _names(rows)
    parts = [
        {"name": name, "values": [brief(row.get(name, 0.0) / unit) for row in rows.values()]}
        for name in names
    ]
    return {"label": label, "series": list(rows), "parts": parts}


def _numbers(
    group: Group, caption: str, rows: Mapping[int, Mapping[str, float]], unit: float
) -> Html:
    names, short = _names(rows), list(group.labels.values())
    written = [
        [short[number], *(f"{row.get(name, 0.0) / unit:.2f}" for name in names)]
        for number, row in rows.items()
    ]
    return table(caption, ("Methods", *names), written)


def _names(rows: Mapping[int, Mapping[str, float]]) -> list[str]:
    """List the phases, the rest last."""
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return sorted(names, key=lambda name: name == REST)
