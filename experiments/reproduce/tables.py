"""Reads the papers' tables: one TOML file per table, in experiments/tables/PAPER/TABLE.toml.

    title, note        what the table shows, and what a reader must know about our settings
    missing            why nothing of it can be run here; rows and columns may say it too
    metric, when       which number of a run a cell is (see experiments/reproduce/metrics.py)
    preset, settings   what all cells have in common, as for `fedmirage run`
    arguments          parameters for methods by their names, in whatever line they appear
    small              settings and arguments of --scale small, and `what` they leave out
    columns, rows      each with a name; both may have any of the keys above, and methods

A cell's settings are those of the table, then those of its column, then those of its row. Its
methods line is that of the row, or else of the column, followed by what either of them adds.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedmirage.common.errors import ConfigurationError
from fedmirage.settings.layers import find, read_toml

FOLDER = Path(__file__).parent.parent / "tables"
PAPERS = FOLDER / "papers.toml"
NO_NUMBER = ("-", "N/A")  # cells in which the paper has none
When = Literal["last", "best", "last-five", "reached", "sum"]


class Written(BaseModel):
    """A part of a TOML file; a key that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, path: Path, what: str, **more: Any) -> Self:
        """Read a file; each problem is named with its place in it."""
        try:
            return cls.model_validate({**read_toml(path, what), **more})
        except ValidationError as error:
            found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
            problems = [f"{path}: {place or 'as a whole'}: {told}" for place, told in found]
            raise ConfigurationError(problems) from None


class WrittenSettings(Written):
    """Settings, and parameters for methods by their names."""

    settings: dict[str, Any] = Field(default_factory=dict)
    arguments: dict[str, dict[str, Any]] = Field(default_factory=dict)


class TablePart(WrittenSettings):
    """What a table, a row or a column may say about its cells."""

    title: str = ""
    missing: str = ""
    preset: str = ""
    metric: str = ""
    when: When | None = None
    target: float | None = None


class Small(WrittenSettings):
    """What --scale small changes, so that a cell takes minutes."""

    what: str = ""


class Line(TablePart):
    """A row or a column."""

    name: str
    methods: str = ""
    adds: str = ""
    small: Small = Small()

    @property
    def shown(self) -> str:
        """What the paper calls it."""
        return self.title or self.name


class TableRow(Line):
    """A row with the paper's numbers, one per column, as they are printed: "73.07 ± 0.08"."""

    paper: tuple[str, ...]


class Table(TablePart):
    """One table of a paper."""

    name: str  # PAPER/TABLE
    title: str
    note: str = ""
    small: Small = Small()
    columns: tuple[Line, ...]
    rows: tuple[TableRow, ...]

    @model_validator(mode="after")
    def _complete(self) -> "Table":
        for lines in (self.columns, self.rows):
            names = [line.name for line in lines]
            if len(set(names)) < len(names):
                raise ValueError("two rows or two columns have the same name")
        short = [row.name for row in self.rows if len(row.paper) != len(self.columns)]
        if short:
            raise ValueError(f"one number per column is missing in {', '.join(short)}")
        return self


def list_tables() -> dict[str, Path]:
    """List the files of all tables by their names, in the order of the papers."""
    order = list(read_papers())
    paths = sorted(FOLDER.glob("*/*.toml"), key=lambda path: (len(path.stem), path.stem))
    paths.sort(key=lambda path: order.index(path.parent.name))
    return {f"{path.parent.name}/{path.stem}": path for path in paths}


def read_papers() -> dict[str, Mapping[str, Any]]:
    """Read what the papers are called, and which of their tables have no results in them."""
    return tomllib.loads(PAPERS.read_text(encoding="utf-8"))


def read_table(name: str) -> Table:
    """Read a table by its name; an unknown one is refused with the nearest names."""
    path = find(list_tables(), name, "table")
    return Table.read(path, "table", name=f"{path.parent.name}/{path.stem}")
