"""The record of one run as the page needs it, whether it is over, under way or damaged.

The curve of a row is the mean over its seeds by round, with the standard deviation as a band.
"""

import fcntl
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from fedmirage.common.errors import DataError
from fedmirage.common.settings.config import RunConfig
from fedmirage.comparison.statistics import spread
from fedmirage.records.lines import (
    Lines,
    config_of,
    find_summary,
    read_names,
    read_record,
    read_rounds,
)
from fedmirage.server.record.folder import LOCK
from fedmirage.server.record.results import summarise

RUNNING = "running"
UNFINISHED = "unfinished"
DAMAGED = "damaged"
MISSING = "missing"
AXES = ("rounds", "samples", "bytes", "seconds")  # what a curve can be drawn against
Value = Callable[[dict[str, Any]], float | None]  # of a line about a round
Columns = dict[str, list[Any]]  # mean, low, high, seeds, and every axis; one entry per round


@dataclass(frozen=True)
class ReportedRun:
    """One run: its settings, the lines of its rounds, and how far it got."""

    folder: Path
    config: dict[str, Any]  # line 1 of its record
    rounds: Lines  # those that were taken over from another run included
    summary: dict[str, Any]
    status: str  # as in the summary, or one of the words above
    reason: str = ""  # why it failed or cannot be read

    @property
    def settings(self) -> RunConfig:
        """Its settings, if this version still accepts them."""
        return config_of(self.config)

    @property
    def going(self) -> bool:
        """Whether a process is still writing into its folder."""
        return self.status == RUNNING

    @property
    def evaluation(self) -> dict[str, Any]:
        """The last evaluation; only the summary of a run that is over has all of it."""
        found = (line["evaluation"] for line in reversed(self.rounds) if line.get("evaluation"))
        return {**next(found, {}), **self.summary.get("final_evaluation", {})}

    @cached_property
    def names(self) -> dict[int, str]:
        """The names of its sites, by partition; none in a simulation."""
        return read_names(self.rounds)

    @property
    def facts(self) -> dict[str, Any]:
        """Its summary; that of a run that has none yet, as far as it is."""
        return self.summary or summarise([self.config, *self.rounds] if self.config else [])

    @cached_property
    def axes(self) -> dict[str, list[float | None]]:
        """What each round stands for: its number, and what all rounds so far took together.

        Nothing is known of samples where clients tell none, as under secure aggregation.
        """
        return {
            "rounds": [line["round"] for line in self.rounds],
            "samples": _running_total(map(samples_of, self.rounds)),
            "bytes": _running_total(
                line.get("bytes_up", 0) + line.get("bytes_down", 0) for line in self.rounds
            ),
            "seconds": _running_total(line.get("seconds", {}).get("round") for line in self.rounds),
        }


def read_run(folder: Path, failure: str = "") -> ReportedRun:
    """Read a run; `failure` is what is known from elsewhere about why it failed."""
    try:
        lines = read_record(folder)
        rounds, summary = read_rounds(folder), find_summary(folder)
    except DataError as error:
        return ReportedRun(folder, {}, [], {}, DAMAGED, str(error))
    config = lines[0] if lines else {}
    if failure:
        return ReportedRun(folder, config, rounds, summary, "failed", failure)
    if summary:
        reason = str(summary.get("reason", ""))
        return ReportedRun(folder, config, rounds, summary, str(summary["status"]), reason)
    if not lines:
        return ReportedRun(folder, {}, [], {}, MISSING, "it has no results")
    return ReportedRun(folder, config, rounds, {}, RUNNING if _is_claimed(folder) else UNFINISHED)


def samples_of(line: dict[str, Any]) -> float | None:
    """Return how many samples clients processed in a round, repetitions included."""
    told = [client["samples"] for client in line.get("clients", []) if "samples" in client]
    return float(sum(told)) if told else None


def _is_claimed(folder: Path) -> bool:
    """Whether a process on this machine is writing into a folder."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _running_total(values: Iterable[float | None]) -> list[float | None]:
    """Add up; from the first unknown value on, the total is unknown."""

    def add(total: float | None, value: float | None) -> float | None:
        return None if total is None or value is None else total + value

    return list(accumulate(values, add))


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


def curves(rows: Iterable[Mapping[int, ReportedRun]], value: Value) -> list[dict[str, Any]]:
    """Make the curves of all rows that have any."""
    found = []
    for number, runs in enumerate(rows):
        columns = curve(runs, value)
        if columns["mean"]:
            found.append({"series": number, **columns})
    return found


def brief(number: float) -> float:
    """Keep six digits, which is more than a plot can show."""
    return float(f"{number:.6g}")
