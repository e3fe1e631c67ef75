"""What the columns of a table mean: a TOML file that people write and that all nodes share.

    version = 1
    label = "outcome"
    classes = ["died", "lived"]

    [[column]]
    name = "age"
    type = "number"
    missing = "mean"

`fedmirage schema` drafts one from a file. Server and nodes compare their schemas before the first
round, so a column has the same place, unit and categories everywhere.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedmirage.common.errors import DataError, reason
from fedmirage.common.settings.language import freeze, sentence

VERSION = 1
EMPTY = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")  # texts that a draft takes as missing
Name = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]

MEANINGS = {"number": ("refuse", "mean", "indicator"), "category": ("refuse", "category")}
KEYS = {
    "number": {"name", "type", "missing", "low", "high", "mean", "std"},
    "category": {"name", "type", "missing", "categories"},
    "ignore": {"name", "type"},
}


class Strict(BaseModel):
    """A part of a schema: its keys are fixed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Column(Strict):
    """One column of the file, and how it becomes inputs of the network."""

    name: Name
    type: Literal["number", "category", "ignore"]
    # What a missing value becomes: the mean; the mean, and a category that says so; a category of
    # its own. Or the whole table is refused.
    missing: Literal["refuse", "mean", "indicator", "category"] = "refuse"
    low: Number | None = None  # values lie between these two; a table with others is refused
    high: Number | None = None
    mean: Number | None = None  # with std: used as they are, instead of being formed by all clients
    std: Annotated[Number, Field(gt=0)] | None = None
    categories: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        kind, asked = self.type, self.model_fields_set
        if strange := sorted(asked - KEYS[kind]):
            raise ValueError(f"type={kind!r} has no key {strange[0]!r}; leave it out")
        if kind in MEANINGS and self.missing not in MEANINGS[kind]:
            choices = " or ".join(map(repr, MEANINGS[kind]))
            raise ValueError(f"missing={self.missing!r} is not for type={kind!r}; write {choices}")
        if kind == "category":
            self._check_categories()
        for pair in (("low", "high"), ("mean", "std")):
            if len(given := asked & set(pair)) == 1:
                raise ValueError(f"{given.pop()} stands alone; write both of {' and '.join(pair)}")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low={self.low:g} is not below high={self.high:g}; exchange them")
        return self

    def _check_categories(self) -> None:
        if not self.categories:
            raise ValueError("categories is empty; list them")
        if twice := find_repeated(self.categories):
            raise ValueError(f"categories has {twice[0]!r} twice; keep one")

    @property
    def width(self) -> int:
        """How many channels of an input it takes."""
        return {"number": 1, "category": len(self.categories), "ignore": 0}[self.type] + {
            "indicator": 2,
            "category": 1,
        }.get(self.missing, 0)

    @property
    def group(self) -> tuple[int, int] | None:
        """Where among its channels those stand of which exactly one is 1."""
        first = 1 if self.type == "number" else 0
        return (first, self.width) if self.width > first else None

    @property
    def unscaled(self) -> bool:
        """Whether mean and deviation are formed by all clients."""
        return self.type == "number" and self.mean is None


class Schema(Strict):
    """What all columns of a table mean."""

    version: Literal[1]
    label: Name
    classes: Annotated[tuple[Name, ...], Field(min_length=2)]
    column: Annotated[tuple[Column, ...], Field(min_length=1)]
    separator: Literal[",", ";", "\t", "|"] = ","  # between two values of a CSV file
    decimal: Literal[".", ","] = "."
    empty: tuple[str, ...] = EMPTY  # texts that stand for a missing value, in any column

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.separator == self.decimal:
            raise ValueError("separator and decimal are both ','; one of them must be another")
        if twice := find_repeated(self.classes):
            raise ValueError(f"classes has {twice[0]!r} twice; keep one")
        if twice := find_repeated([self.label, *(column.name for column in self.column)]):
            raise ValueError(f"the column {twice[0]!r} is named twice; keep one of them")
        if not any(column.width for column in self.column):
            raise ValueError("all columns are ignored; give one of them another type")
        for what, texts in (("classes", self.classes), *self._listed()):
            if both := set(texts) & set(self.empty):
                raise ValueError(
                    f"{what}: {both.pop()!r} is also in empty; remove it from one of them"
                )
        return self

    def _listed(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(f"column {column.name!r}", column.categories) for column in self.column]

    @property
    def text(self) -> str:
        """All that it says, always written in the same way, without comments."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)

    def places(self) -> Iterator[tuple[Column, int]]:
        """Yield the columns that are used, each with its first channel."""
        first = 0
        for column in self.column:
            if column.width:
                yield column, first
            first += column.width

    @property
    def scale(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation of every channel, as far as they stand here; elsewhere 0 and 1."""
        used = [column for column, _ in self.places()]
        means = [(column.mean or 0.0, *[0.0] * (column.width - 1)) for column in used]
        stds = [(column.std or 1.0, *[1.0] * (column.width - 1)) for column in used]
        return sum(means, ()), sum(stds, ())


def read_schema(path: Path) -> Schema:
    """Read a schema file; raise all that is wrong with it."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"the schema cannot be read ({reason(error)}); check its path") from None
    except ValueError as error:  # tomllib's error, and that of a text which is not UTF-8
        raise DataError(
            f"the schema {path} is no TOML file ({error}); `fedmirage schema` drafts one"
        ) from None
    if (version := found.get("version", VERSION)) != VERSION:
        raise DataError(
            f"the schema {path} has version={version!r}, and this program reads {VERSION}; draft"
            " it again with `fedmirage schema`, or update fedmirage"
        )
    return check_schema(found, f"the schema {path}")


@lru_cache(maxsize=16)
def parse_schema(text: str) -> Schema:
    """Read what `Schema.text` has written."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise DataError("the schema is none; do both sides run the same version?")
    return check_schema(found, "the schema")


def check_schema(found: dict[str, Any], subject: str) -> Schema:
    """Turn what a file holds into a schema; raise all that is wrong with it."""
    columns = found.get("column")
    listed = isinstance(columns, list) and all(isinstance(one, dict) for one in columns)
    if columns is not None and not listed:
        raise DataError(f"{subject}: write every column as a part of its own, below [[column]]")
    try:
        given = {key: freeze(value) for key, value in found.items()}
        if listed:
            given["column"] = tuple(_freeze_column(one) for one in columns or ())
        return Schema.model_validate(given)
    except ValidationError as error:
        details = [_explain(detail, subject, given) for detail in error.errors()]
        raise DataError("\n".join(dict.fromkeys(details))) from None


def _freeze_column(column: dict[str, Any]) -> dict[str, Any]:
    return {
        key: freeze(value) for key, value in column.items() if not (key != "name" and value is None)
    }


def _explain(detail: Any, subject: str, given: dict[str, Any]) -> str:
    """Write a sentence about one problem; a column is called by its name."""
    place = detail["loc"]
    if len(place) > 1 and place[0] == "column":
        column = given["column"][place[1]]
        named = repr(column["name"]) if "name" in column else f"number {place[1] + 1}"
        inner = {**detail, "loc": place[2:]}
        return sentence(inner, f"{subject}: the column {named}", Column.model_fields)
    if detail["type"] == "missing" and place == ("column",):
        return f"{subject} has no column; write a part [[column]] for each"
    return sentence(detail, subject, Schema.model_fields)


def find_repeated(texts: Sequence[str]) -> list[str]:
    """List the texts that stand more than once."""
    return [text for text, count in Counter(texts).items() if count > 1]
