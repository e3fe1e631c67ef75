"""Curves of a row: the mean over its seeds by round, and the standard deviation as a band."""

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from fedmirage.comparison.statistics import spread
from fedmirage.report.groups import Group
from fedmirage.report.runs import AXES, ReportedRun

Value = Callable[[dict[str, Any]], float | None]  # of a line about a round
Columns = dict[str, list[Any]]  # mean, low, high, seeds, and every axis; one entry per round


def curve(runs: Mapping[int, ReportedRun], value: Value) -> Columns:
    """Make the curve of one row; it is empty if no round has the value."""
    found: dict[int, list[tuple[float, list[float | None]]]] = {}
    for run in runs.values():
        places = zip(*(run.axes[axis] for axis in AXES), strict=True)
        for line, place in zip(run.rounds, places, strict=True):
            number = value(line)
            if number is not None:
                found.setdefault(int(line["round"]), []).append((number, list(place)))
    columns: Columns = {name: [] for name in ("mean", "low", "high", "seeds", *AXES)}
    for _, points in sorted(found.items()):
        summary = spread([number for number, _ in points])
        assert summary is not None  # a round is only listed with at least one value
        deviation = summary.deviation
        columns["mean"].append(brief(summary.mean))
        columns["low"].append(None if deviation is None else brief(summary.mean - deviation))
        columns["high"].append(None if deviation is None else brief(summary.mean + deviation))
        columns["seeds"].append(len(points))
        for axis, *values in zip(AXES, *(place for _, place in points), strict=True):
            known = [one for one in values if one is not None]
            whole = len(known) == len(values)
            columns[axis].append(brief(statistics.fmean(known)) if whole else None)
    return columns


def curves(group: Group, value: Value) -> list[dict[str, Any]]:
    """Make the curves of all rows that have any."""
    found = []
    for number, runs in enumerate(group.runs.values()):
        columns = curve(runs, value)
        if columns["mean"]:
            found.append({"series": number, **columns})
    return found


def brief(number: float) -> float:
    """Keep six digits, which is more than a plot can show."""
    return float(f"{number:.6g}")
