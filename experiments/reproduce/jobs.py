"""The cells of a table, and the runs behind them: each configuration once, whatever it serves.

A cell has settings, or a reason why it cannot be run.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.reproduce.tables import NO_NUMBER, Line, Table, TableRow, When
from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.files.places import data_folder
from fedmirage.common.data.files.sources import locate
from fedmirage.common.errors import collect, refuse
from fedmirage.common.settings.config import RunConfig, configure, defaults
from fedmirage.common.settings.language import Call, nearest, parse, resolve_line
from fedmirage.comparison.plan import Job, make_slug, share_warm_up, shared_rounds
from fedmirage.comparison.rows import Row, spell
from fedmirage.settings.layers import place, read_preset

Scale = Literal["small", "paper"]
SCALES: tuple[Scale, ...] = ("small", "paper")


@dataclass(frozen=True, eq=False)  # every cell is one object, so that it can be a key
class Cell:
    """One number of a table."""

    table: Table
    row: TableRow
    column: Line

    def __str__(self) -> str:
        return f"{self.table.name}, row {self.row.name}, column {self.column.name}"

    @property
    def paper(self) -> str:
        """The paper's number as it is printed."""
        return self.row.paper[self.table.columns.index(self.column)]

    @property
    def missing(self) -> str:
        """Why it cannot be run here; empty if it can."""
        if self.paper in NO_NUMBER:
            return "the paper has no number there"
        return self.table.missing or self.row.missing or self.column.missing

    @property
    def metric(self) -> str:
        """Where its number stands in the line of a round."""
        return self.row.metric or self.column.metric or self.table.metric

    @property
    def when(self) -> When:
        """Which rounds its number is from."""
        return self.row.when or self.column.when or self.table.when or "last"

    @property
    def target(self) -> float | None:
        """The metric that is to be reached, where the number is a number of rounds."""
        return self.row.target or self.column.target or self.table.target

    @property
    def methods(self) -> str:
        """The methods line of its row and column."""
        first = self.row.methods or self.column.methods
        return ", ".join(text for text in (first, self.column.adds, self.row.adds) if text)

    @property
    def parts(self) -> tuple[Table, Line, Line]:
        """What decides its settings; later ones win."""
        return self.table, self.column, self.row

    @property
    def line(self) -> str:
        """The methods line of the paper's scale, with all parameters."""
        return with_arguments(self.methods, [part.arguments for part in self.parts])

    @property
    def layers(self) -> list[Mapping[str, Any]]:
        """The settings of the paper's scale; later ones win."""
        layers: list[Mapping[str, Any]] = []
        for part in self.parts:
            layers += [read_preset(part.preset)] if part.preset else []
            layers.append(part.settings)
        return layers

    @property
    def dataset(self) -> str:
        """The data set of the paper's scale, without the other settings being checked."""
        named = [layer["dataset"] for layer in self.layers if "dataset" in layer]
        return str(named[-1] if named else defaults()["dataset"])

    def configure(self, scale: Scale, more: Mapping[str, Any]) -> RunConfig:
        """Make the settings of its run; `more` are those that every run of the command has."""
        small = [part.small for part in self.parts] if scale == "small" else []
        layers = [*self.layers, *(one.settings for one in small)]
        line = with_arguments(self.line, [one.arguments for one in small])
        return configure(*layers, {"methods": line, **more})


def with_arguments(line: str, layers: Iterable[Mapping[str, Mapping[str, Any]]]) -> str:
    """Give the methods of a line further parameters by their names; later ones win."""
    calls = parse(line, "methods")
    for layer in layers:
        calls = [Call(call.name, {**call.arguments, **layer.get(call.name, {})}) for call in calls]
    return spell(calls)


def list_cells(table: Table) -> list[Cell]:
    """List all cells, row by row."""
    return [Cell(table, row, column) for row in table.rows for column in table.columns]


def choose_cells(table: Table, rows: Sequence[str], columns: Sequence[str]) -> list[Cell]:
    """Choose cells by the names of their rows and columns; nothing named means all of them."""
    problems = []
    for what, names, lines in (("row", rows, table.rows), ("column", columns, table.columns)):
        known = [line.name for line in lines]
        problems += [
            f"{table.name} has no {what} {name!r}{nearest(name, known)}"
            for name in names
            if name not in known
        ]
    refuse(problems)
    return [
        cell
        for cell in list_cells(table)
        if (not rows or cell.row.name in rows) and (not columns or cell.column.name in columns)
    ]


def describe_small(cells: Sequence[Cell]) -> str:
    """Say what --scale small leaves out."""
    said = [part.small.what for cell in cells for part in cell.parts]
    return "; ".join(dict.fromkeys(filter(None, said)))


# Settings that change where and how a run is done and what it writes, but none of its numbers; the
# server's threads do so in the last digits, where a method trains on the server.
WITHOUT_EFFECT = {
    *("out", "warm-start", "resume", "data-dir", "download", "device", "keep-models"),
    *("save-images", "target", "node-timeout", "round-timeout", "retries", "min-replies"),
    "server-threads",
}
MORE = ("diagnostics", "local-evaluation")  # a run that has them serves cells that do not ask


@dataclass(frozen=True)
class ChosenCells:
    """The chosen cells, the runs that they need, and the cells that lack their data."""

    folders: dict[Cell, list[Path]]  # one folder per seed
    jobs: list[Job]
    without_data: dict[Cell, str]


def make_work(
    cells: Sequence[Cell], scale: Scale, seeds: Sequence[int], folder: Path, more: Mapping[str, Any]
) -> ChosenCells:
    """Make the runs of all cells whose data are here; wrong settings are refused all at once."""
    jobs: dict[Path, Job] = {}
    folders: dict[Cell, list[Path]] = {}
    without: dict[Cell, str] = {}
    problems: list[str] = []
    for cell in (cell for cell in cells if not cell.missing):
        with collect(problems, f"{cell}: "):
            config = cell.configure(scale, more)
            if not config.download and (lacking := find_lacking(config.dataset, config.data_dir)):
                without[cell] = lacking
                continue
            for seed in seeds:
                job = make_job(config, seed, folder)
                jobs.setdefault(job.folder, job)
                folders.setdefault(cell, []).append(job.folder)
    refuse(problems)
    return ChosenCells(folders, share_all(list(jobs.values())), without)


def make_job(config: RunConfig, seed: int, folder: Path) -> Job:
    """Make a run in a folder whose name tells its settings apart from all others."""
    name = f"{make_slug(config.methods)}-{digest(config)}-seed{seed}"
    own = {"seed": seed, "out": str(folder / name), "server-threads": config.server_threads or 1}
    return Job(Row(config.methods), place(configure(config.flat(), own)))


def share_all(jobs: Sequence[Job]) -> list[Job]:
    """Share FedAvg's first rounds among runs that differ in their methods alone."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        rest = {**job.config.flat(), "methods": "", "out": "", "keep-models": ""}
        groups.setdefault(json.dumps(rest), []).append(job)
    return [job for group in groups.values() for job in share_warm_up(group)]


def digest(config: RunConfig) -> str:
    """Make a short name for everything but the seed that decides the numbers of a run."""
    text = json.dumps(numbers_of(config.flat()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def numbers_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the settings that decide the numbers of a run, apart from its seed."""
    return {key: value for key, value in settings.items() if key not in WITHOUT_EFFECT | {"seed"}}


def find_lacking(line: str, data_dir: str) -> str:
    """Name the data sets of a line whose files are not on this machine; "" if all are."""
    folder = data_folder(data_dir or None)
    chosen = resolve_line(line, DATASETS, "dataset")
    return ", ".join(params.name for params in chosen if locate(params, folder) is None)


def is_recorded(config: RunConfig, recorded: Mapping[str, Any]) -> bool:
    """Whether a recorded run has the settings of a cell, also if it began with FedAvg's rounds."""
    wanted, has = numbers_of(config.flat()), numbers_of(recorded)
    if any(wanted.pop(key) and not has.get(key) for key in MORE):
        return False
    if has.get("eval-every") == 1:  # every round is scored, so that all cells find theirs
        wanted.pop("eval-every")
    if any(has.get(key, value) != value for key, value in wanted.items()):
        return False
    _, _, taken = str(recorded.get("warm-start", "")).rpartition("@")
    return not taken or int(taken) <= shared_rounds(config)
