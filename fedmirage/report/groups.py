"""Sorts folders into groups of runs that may be compared with each other."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.own_methods import nothing_imported
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.comparison.outcome import FILE as COMPARISON
from fedmirage.comparison.outcome import Outcome, Standing, make_entry, read_outcome, stand
from fedmirage.comparison.rows import FEDAVG, Question, choice_of, headline, placebo_of
from fedmirage.comparison.table import name_row
from fedmirage.report.runs import DAMAGED, ReportedRun, read_run
from fedmirage.server.record.folder import MOVABLE, PLACES
from fedmirage.server.record.results import FILE

# Runs that differ in nothing else may be compared: what is compared, where a run took place, and
# what it wrote down.
COMPARED = {"methods", "lr", "schedule", "lr-decay", "seed"}
WRITTEN = {"keep-models", "save-images", "diagnostics", "local-evaluation", "target"}
PLACED = (MOVABLE - {"rounds"}) | PLACES | {"download", "threads", "server-threads", "min-replies"}
TITLE = ("dataset", "partition", "model", "clients", "rounds")


@dataclass(frozen=True)
class Group:
    """Runs that may be compared, by row and seed, and what can be said about them."""

    folder: Path
    outcome: Outcome
    runs: dict[str, dict[int, ReportedRun]]  # by the name of the row, then by seed
    whole: bool  # whether it is a recorded comparison

    @cached_property
    def labels(self) -> dict[str, str]:
        """What tables and plots call the rows."""
        outcome = self.outcome
        return {one.entry.name: name_row(one, outcome).plain for one in outcome.standings}

    @property
    def all_runs(self) -> list[ReportedRun]:
        """Every run of the group."""
        return [run for row in self.runs.values() for run in row.values()]

    @property
    def going(self) -> bool:
        """Whether any of the runs is still under way."""
        return any(run.going for run in self.all_runs)

    def first_run(self, name: str) -> ReportedRun | None:
        """Return the run of a row that stands for it where only one can be shown."""
        begun = [run for run in self.runs[name].values() if run.rounds]
        return begun[0] if begun else None


@dataclass(frozen=True)
class Found:
    """What the given folders hold."""

    groups: list[Group]
    damaged: list[str]  # sentences about records that cannot be read
    empty: list[Path]  # folders without any results


def find_groups(folders: Sequence[Path]) -> Found:
    """Read all folders: comparisons, runs, and folders that hold some of either."""
    groups: list[Group] = []
    loose: list[ReportedRun] = []
    damaged: list[str] = []
    empty: list[Path] = []
    places: dict[Path, None] = {}  # each once, also if it lies in another one that was given
    for folder in folders:
        found = list_places(folder.absolute())  # whose names are those of folders, never "."
        empty += [] if found else [folder]
        places |= dict.fromkeys(found)
    for place in places:
        try:
            if (place / COMPARISON).exists():
                groups.append(_read_comparison(place))
                continue
        except DataError as error:
            damaged.append(f"{error}; its runs are shown one by one")
            loose += [read_run(file.parent) for file in sorted(place.glob(f"*/{FILE}"))]
            continue
        loose.append(read_run(place))
    damaged += [run.reason for run in loose if run.status == DAMAGED]
    readable, odd = _settle([run for run in loose if run.config])
    said = dict.fromkeys(damaged + odd)  # runs that took rounds over repeat the damage of these
    return Found(groups + _group(readable), list(said), empty)


def list_places(folder: Path) -> list[Path]:
    """List the comparison or the run that a folder is, or else those that lie in it."""
    if (folder / COMPARISON).exists() or (folder / FILE).exists():
        return [folder]
    nested = {path.parent for name in (COMPARISON, FILE) for path in folder.glob(f"*/{name}")}
    return sorted(nested)


def _read_comparison(folder: Path) -> Group:
    outcome = read_outcome(folder)
    failed = json.loads((folder / COMPARISON).read_text(encoding="utf-8"))["failed"]
    runs = {
        standing.entry.name: {
            seed: read_run(folder / name, failed.get(name, ""))
            for seed, name in standing.entry.runs.items()
        }
        for standing in outcome.standings
    }
    return Group(folder, outcome, runs, whole=True)


def _settle(runs: Iterable[ReportedRun]) -> tuple[list[tuple[ReportedRun, RunConfig]], list[str]]:
    """Check the recorded settings; those that this version does not know are named."""
    found, odd = [], []
    for run in runs:
        try:
            found.append((run, run.settings))
        except ConfigurationError as error:
            file = run.folder / FILE
            odd.append(f"{file} has settings that this version refuses, so it is left out: {error}")
    return found, odd


def _group(runs: Sequence[tuple[ReportedRun, RunConfig]]) -> list[Group]:
    """Put runs together that may be compared."""
    sorted_out: dict[str, list[tuple[ReportedRun, RunConfig]]] = {}
    for run, config in runs:
        flat = config.flat()
        kept = {key: flat[key] for key in flat.keys() - COMPARED - WRITTEN - PLACED}
        sorted_out.setdefault(json.dumps(kept, sort_keys=True), []).append((run, config))
    return [_make_group(members) for members in sorted_out.values()]


@nothing_imported()
def _make_group(members: Sequence[tuple[ReportedRun, RunConfig]]) -> Group:
    """Make rows of runs with the same methods, learning rate and schedule, FedAvg first."""
    usual = Counter(choice_of(config) for _, config in members).most_common(1)[0][0]
    shared = os.path.commonpath([run.folder.parent for run, _ in members])
    rows: dict[str, dict[int, ReportedRun]] = {}
    configs: dict[str, RunConfig] = {}
    for run, config in sorted(members, key=lambda member: member[1].methods != FEDAVG):
        different = ", ".join(choice_of(config).apart_from(usual))
        name = f"{config.methods} with {different}" if different else config.methods
        if config.seed in rows.get(name, {}):  # the same settings twice
            name = f"{name} in {run.folder.relative_to(shared)}"
        rows.setdefault(name, {})[config.seed] = run
        configs.setdefault(name, config)
    rows = {name: rows[name] for name in _order(rows, configs)}
    standings = tuple(_stand(name, rows, configs[name]) for name in rows)
    seeds = tuple(sorted({seed for row in rows.values() for seed in row}))
    first = members[0][0].folder
    folder = first.parent if len(members) > 1 else first
    settings = configure(members[0][1].flat(), {**usual.settings, "warm-start": "", "resume": ""})
    question = Question(score=headline(settings.server_data))
    outcome = Outcome(folder, settings, seeds, standings, question)
    return Group(folder, outcome, rows, whole=False)


def _order(rows: Iterable[str], configs: Mapping[str, RunConfig]) -> list[str]:
    """Put every placebo after its method."""
    followers = {name: _placebo(name, configs[name]) for name in rows}
    leading = [name for name in rows if name not in followers.values()]
    ordered = [one for name in leading for one in (name, followers[name]) if one in configs]
    return list(dict.fromkeys(ordered))


def _placebo(name: str, config: RunConfig) -> str:
    """Write the line of a row's placebo; a row with a rate or schedule of its own has none."""
    return placebo_of(name) if name == config.methods else ""


def _stand(name: str, rows: dict[str, dict[int, ReportedRun]], config: RunConfig) -> Standing:
    """Score the runs of a row that are finished; those that are under way have not failed."""
    placebo = _placebo(name, config)
    folders = {seed: str(run.folder.absolute()) for seed, run in rows[name].items()}
    entry = make_entry(name, placebo if placebo in rows else "", config, folders)
    question = Question(score=headline(config.server_data))
    standing = stand(Path(), entry, {}, question)
    failed = {seed: why for seed, why in standing.failed.items() if not rows[name][seed].going}
    return replace(standing, failed=failed)


def describe_settings(settings: RunConfig) -> str:
    """Say on what and how the runs of a group took place."""
    known: dict[str, Any] = settings.flat()
    return ", ".join(_count(known[key], key) for key in TITLE)


def _count(value: Any, key: str) -> str:
    """Write a line as it is, and a number with the name of what it counts."""
    if isinstance(value, str):
        return value
    return f"{value} {key.removesuffix('s') if value == 1 else key}"
