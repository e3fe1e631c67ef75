"""The sections with curves: accuracy and loss, drift, terms of the loss, the privacy budget."""

from collections.abc import Mapping
from typing import Any

from fedmirage.comparison.scores import score_of
from fedmirage.report.bands import Value, curves, spread_out
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, join, paragraph, plot, table
from fedmirage.report.runs import AXES
from fedmirage.server.strategy.budget import spent

COLUMNS = 10  # rounds that the table beside a plot shows
AXIS_LABELS = {
    "rounds": "Round",
    "samples": "Samples processed",
    "bytes": "Megabytes sent",
    "seconds": "Seconds",
}
BAND = "Lines are means over seeds, bands one standard deviation on either side. "
SECONDS = (
    "Seconds are those of rounds on the machine that ran them, which other runs may have shared."
)


def progress(group: Group) -> PageSection:
    """Draw accuracy and loss against rounds, samples, bytes and seconds."""
    values: dict[str, Value] = {
        "Accuracy": lambda line: score_of(line, "accuracy"),
        "Loss": lambda line: score_of(line, "loss"),
    }
    name = "Accuracy and loss on the test set"
    html, plots = draw(group, "curves", name, values, {"Accuracy"})
    if not plots:
        return PageSection("curves", "Curves", paragraph("No round has been evaluated yet."))
    said = BAND * (len(group.outcome.seeds) > 1) + SECONDS
    return PageSection("curves", "Curves", join((paragraph(said, class_="note"), html)), plots)


def drift(group: Group) -> PageSection:
    """Draw how far the clients' models are from their average."""
    title = "Drift"
    values: dict[str, Value] = {"Drift": lambda line: line.get("diagnostics", {}).get("drift")}
    html, plots = draw(group, "drift", "Mean distance of local models to their average", values)
    if not plots:
        return PageSection(
            "drift", title, paragraph("Drift is recorded with --diagnostics; these runs had none.")
        )
    said = "The mean distance of the clients' models to their average, after local training."
    return PageSection("drift", title, join((paragraph(said, class_="note"), html)), plots)


def terms(group: Group) -> PageSection:
    """Draw every term of the local objective, and every figure of a method, by its name."""
    lines = [line for run in group.all_runs for line in run.rounds]
    values: dict[str, Value] = {
        name: _figure(part, name)
        for part in ("train", "methods")
        for name in dict.fromkeys(name for line in lines for name in line.get(part, {}))
    }
    html, plots = draw(group, "terms", "Terms of the local objective", values)
    if not plots:
        return PageSection(
            "terms", "Loss terms", paragraph("These runs report no terms of their loss.")
        )
    said = (
        "Means over the clients of a round of every term of the local objective, as weighted in it;"
        " task is the loss on the clients' own data. Names with the name of a method in front are"
        " figures that this method reports."
    )
    return PageSection("terms", "Loss terms", join((paragraph(said, class_="note"), html)), plots)


def budget(group: Group) -> PageSection | None:
    """Draw the privacy budget that has been spent; there is no section without one."""
    spending = {
        group.labels[name]: runs
        for name, runs in group.runs.items()
        if any("dp" in line for run in runs.values() for line in run.rounds)
    }
    if not spending:
        return None
    rows = []
    for name, runs in spending.items():
        for seed, run in runs.items():
            last = next((line["dp"] for line in reversed(run.rounds) if "dp" in line), None)
            if last is not None:
                clipped = last.get("clipped")
                part = "-" if clipped is None else f"{100 * clipped:.1f} %"
                rows.append([name, seed, spent(last), part])
    values: dict[str, Value] = {"Epsilon": lambda line: line.get("dp", {}).get("epsilon")}
    html, plots = draw(group, "budget", "Epsilon that has been spent", values)
    head = ("Methods", "Seed", "Spent", "Updates clipped, last round")
    return PageSection("budget", "Privacy budget", join((table("Budget", head, rows), html)), plots)


def draw(
    group: Group, key: str, label: str, values: Mapping[str, Value], percent: set[str] | None = None
) -> tuple[Html, dict[str, Any]]:
    """Make a plot of curves with a choice of values and axes, and its table."""
    options, tables = [], []
    for name, value in values.items():
        found = curves(group, value)
        if found:
            scale = 100 if name in (percent or ()) else 1
            options.append({"label": name, "percent": scale == 100, "lines": found})
            tables.append(numbers(group, name, found, scale))
    if not options:
        return Html(), {}
    axes = [{"key": axis, "label": AXIS_LABELS[axis]} for axis in AXES]
    spec = {"kind": "lines", "label": label, "options": options, "axes": axes}
    return plot(key, label, join(tables)), {key: spec}


def numbers(group: Group, name: str, lines: list[dict[str, Any]], scale: int) -> Html:
    """Write curves as a table: some rounds, and the last one."""
    rounds = sorted({int(one) for line in lines for one in line["rounds"]})
    shown = [rounds[place] for place in spread_out(len(rounds), COLUMNS)]
    rows = []
    for line in lines:
        at = {int(number): place for place, number in enumerate(line["rounds"])}
        cells = [_cell(line, at[number], scale) if number in at else "-" for number in shown]
        rows.append([list(group.labels.values())[line["series"]], *cells])
    unit = " in per cent" if scale == 100 else ""
    head = ("Methods", *(f"Round {number}" for number in shown))
    said = ": mean ± standard deviation over seeds" if len(group.outcome.seeds) > 1 else ""
    return table(f"{name}{unit}{said}", head, rows)


def _figure(part: str, name: str) -> Value:
    return lambda line: line.get(part, {}).get(name)


def _cell(line: dict[str, Any], place: int, scale: int) -> str:
    mean, high = line["mean"][place], line["high"][place]
    written = f"{scale * mean:.2f}" if scale == 100 else f"{mean:.4g}"
    if high is None:
        return written
    deviation = scale * (high - mean)
    return f"{written} ±{deviation:.2f}" if scale == 100 else f"{written} ±{deviation:.2g}"
