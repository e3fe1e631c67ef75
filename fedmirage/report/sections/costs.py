"""Where time and bytes go, by phase of a round."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from pandas import DataFrame

from fedmirage.common.wire.metrics import TIMES
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, element, join, plot_section, table
from fedmirage.report.runs import ReportedRun, brief

PHASES = {"preparation": "preparation", "clients": "clients"}
PHASES |= {"aggregate": "server", "evaluate": "evaluation"}
REST = "rest"
Parts = Callable[[ReportedRun], Mapping[str, float]]


def phases(group: Group) -> PageSection:
    """Draw the seconds and the bytes of a whole run, a mean over seeds."""
    found = {"Seconds": _means(group, seconds_of), "Megabytes": _means(group, bytes_of) / 1e6}
    within = _means(group, method_seconds_of)
    options, tables = [], []
    for label, means in found.items():
        if len(means):
            parts = [
                {"name": name, "values": [brief(value) for value in means[name]]} for name in means
            ]
            options.append({"label": label, "series": list(means.index), "parts": parts})
            tables.append(_numbers(group, f"{label} of a run, by phase", means))
    if len(within):
        caption = "Seconds of methods in clients, summed over clients; part of the clients' time"
        tables.append(_numbers(group, caption, within))
    if not options:
        return PageSection("phases", "Time and bytes", element("p", "No round is over yet."))
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


def _means(group: Group, parts: Parts) -> DataFrame:
    """Return the mean over seeds of every part, by the number of the row; the rest comes last."""
    found = {}
    for number, runs in enumerate(group.runs.values()):
        known = [told for run in runs.values() if (told := parts(run))]
        if known:
            found[number] = DataFrame(known).fillna(0.0).mean().to_dict()
    means = DataFrame(list(found.values()), index=list(found)).fillna(0.0)
    return means[sorted(means, key=lambda name: name == REST)]


def _numbers(group: Group, caption: str, means: DataFrame) -> Html:
    short = list(group.labels.values())
    written = [
        [short[number], *(f"{value:.2f}" for value in row)] for number, row in means.iterrows()
    ]
    return table(caption, ("Methods", *means), written)
