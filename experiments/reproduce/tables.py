"""Reads the papers' tables: one TOML file per table, in experiments/tables/PAPER/TABLE.toml.

    title, note        what the table shows, and what a reader must know about our settings
    missing            why nothing of it can be run here; rows and columns may say it too
    metric             where the number of a cell stands in a round's line of results.jsonl, with
                       "/" between the keys: "accuracy", "evaluation/domains/svhn", ...
    when               last: in the last round; best: the best of all rounds; last-five: the mean
                       of the last five; sum: over all rounds; reached: the first round whose metric
                       is at least `target`
    preset, settings   what all cells have in common, as for `fedmirage run`
    arguments          parameters for methods by their names, in whatever line they appear
    small              settings and arguments of --scale small, and `what` they leave out
    columns, rows      each with a name; both may have any of the keys above, and methods

A cell's settings are those of the table, then those of its column, then those of its row. Its
methods line is that of the row, or else of the column, followed by what either of them adds.
"""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedmirage.common.errors import ConfigurationError
from fedmirage.comparison.scores import LAST
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


WORDS = {
    "last": "last round",
    "best": "best round",
    "last-five": "mean of the last five rounds",
    "sum": "sum over all rounds",
    "reached": "rounds to the target",
}


def look_up(line: dict[str, Any], metric: str) -> float | None:
    """Find a metric in the line of a round; None if it is not there or empty."""
    found: Any = line
    for key in metric.split("/"):
        found = found.get(key) if isinstance(found, dict) else None
    return None if found is None else float(found)


def read_metric(
    lines: Sequence[dict[str, Any]], metric: str, when: When, target: float | None = None
) -> float | None:
    """Compute what a cell shows; None if the run never had it, or never reached the target."""
    found = [(int(line["round"]), look_up(line, metric)) for line in lines]
    values = [(number, value) for number, value in found if value is not None]
    if not values:
        return None
    numbers = [value for _, value in values]
    if when == "reached":
        assert target is not None
        return next((float(number) for number, value in values if value >= target), None)
    computed = {
        "last": numbers[-1],
        "best": max(numbers),
        "last-five": statistics.fmean(numbers[-LAST:]),
        "sum": sum(numbers),
    }
    return computed[when]


def in_per_cent(metric: str, when: When) -> bool:
    """Whether a cell shows a share in per cent; rounds and seconds stay as they are."""
    return when not in ("reached", "sum") and not metric.startswith("seconds")
