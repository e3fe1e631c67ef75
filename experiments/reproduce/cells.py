"""The cells of a table: the settings of each, and why some of them cannot be run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from experiments.reproduce.tables import NO_NUMBER, Line, Table, TableRow, When
from fedmirage.common.errors import refuse
from fedmirage.common.settings.config import RunConfig, configure, defaults
from fedmirage.common.settings.language import Call, nearest, parse
from fedmirage.comparison.rows import spell
from fedmirage.settings.layers import read_preset

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
