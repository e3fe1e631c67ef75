"""The sections with curves: scores and loss, drift, terms of the loss, the privacy budget."""

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fedmirage.common.wire.metrics import FURTHER_SCORES
from fedmirage.comparison.rows import METRICS
from fedmirage.comparison.scores import score_of
from fedmirage.comparison.table import capitalise
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, element, join, plot_section, table
from fedmirage.report.runs import AXES, Value, curves
from fedmirage.server.strategy.budget import spent
from fedmirage.show.words import spread_out

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
EPSILON = "The smaller epsilon is, the less the models tell about any single client."


def progress(group: Group) -> PageSection:
    """Draw all scores and the loss against rounds, samples, bytes and seconds.

    What is compared comes first.
    """
    question = group.outcome.question
    names = {capitalise(METRICS[name]): name for name in (question.metric, "accuracy")}
    names["Loss"] = "loss"
    names |= {capitalise(label): name for name, label in FURTHER_SCORES.items()}
    values: dict[str, Value] = {
        label: partial(score_of, name=name, score=question.score) for label, name in names.items()
    }
    label = f"Scores and loss on {question.where}"
    said = BAND * (len(group.outcome.seeds) > 1) + SECONDS
    none = "No round has been evaluated yet."
    return draw(group, "curves", "Curves", label, values, said, none, values.keys() - {"Loss"})


def drift(group: Group) -> PageSection:
    """Draw how far the clients' models are from their average."""
    values: dict[str, Value] = {"Drift": lambda line: line.get("diagnostics", {}).get("drift")}
    label = "Mean distance of local models to their average"
    said = "The mean distance of the clients' models to their average, after local training."
    none = "Drift is recorded with --diagnostics; these runs had none."
    return draw(group, "drift", "Drift", label, values, said, none)


def terms(group: Group) -> PageSection:
    """Draw every term of the local objective, and every metric of a method, by its name."""
    lines = [line for run in group.all_runs for line in run.rounds]
    values: dict[str, Value] = {
        name: _metric(part, name)
        for part in ("train", "methods")
        for name in dict.fromkeys(name for line in lines for name in line.get(part, {}))
    }
    said = (
        "Means over the clients of a round of every term of the local objective, as weighted in it;"
        " task is the loss on the clients' own data. Names with the name of a method in front are"
        " metrics that this method reports."
    )
    none = "These runs report no terms of their loss."
    return draw(group, "terms", "Loss terms", "Terms of the local objective", values, said, none)


def budget(group: Group) -> PageSection | None:
    """Draw the privacy budget that has been spent; there is no section without one."""
    rows = []
    for name, runs in group.runs.items():
        for seed, run in runs.items():
            last = next((line["dp"] for line in reversed(run.rounds) if "dp" in line), None)
            if last is not None:
                clipped = last.get("clipped")
                part = "-" if clipped is None else f"{100 * clipped:.1f} %"
                rows.append([group.labels[name], seed, spent(last), part])
    if not rows:
        return None
    head = ("Methods", "Seed", "Spent", "Updates clipped, last round")
    values: dict[str, Value] = {"Epsilon": lambda line: line.get("dp", {}).get("epsilon")}
    label, title = "Epsilon that has been spent", "Privacy budget"
    drawn = draw(group, "budget", title, label, values, EPSILON, "No epsilon here is finite.")
    return replace(drawn, html=join((table("Budget", head, rows), drawn.html)))


def draw(
    group: Group,
    key: str,
    title: str,
    label: str,
    values: Mapping[str, Value],
    said: str,
    none: str,
    percent: Container[str] = (),
) -> PageSection:
    """Make a section of curves with a choice of values and axes, and their table.

    `said` explains them, and `none` stands in their place where there are none.
    """
    options, tables = [], []
    for name, value in values.items():
        found = curves(group.runs.values(), value)
        if found:
            scale = 100 if name in percent else 1
            options.append({"label": name, "percent": scale == 100, "lines": found})
            tables.append(numbers(group, name, found, scale))
    if not options:
        return PageSection(key, title, element("p", none))
    axes = [{"key": axis, "label": AXIS_LABELS[axis]} for axis in AXES]
    spec = {"kind": "lines", "label": label, "options": options, "axes": axes}
    return plot_section(key, title, said, join(tables), spec)


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


def _metric(part: str, name: str) -> Value:
    return lambda line: line.get(part, {}).get(name)


def _cell(line: dict[str, Any], place: int, scale: int) -> str:
    mean, high = line["mean"][place], line["high"][place]
    written = f"{scale * mean:.2f}" if scale == 100 else f"{mean:.4g}"
    if high is None:
        return written
    deviation = scale * (high - mean)
    return f"{written} ±{deviation:.2f}" if scale == 100 else f"{written} ±{deviation:.2g}"
