"""Turns the columns of a table into inputs and labels, as its schema says.

A number takes one channel; NaN stands for a value that is missing, and becomes the mean when the
inputs are normalised. A category takes one channel for each of its values, of which exactly one
is 1. Whatever does not fit the schema is refused, all of it at once.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedmirage.common.data.files.raw import (
    PictureForm,
    Raw,
    RawSplit,
    Rows,
    Values,
    list_texts,
    number_values,
)
from fedmirage.common.data.tables.files import (
    is_number,
    is_readable,
    parse_numbers,
    read_columns,
    to_texts,
)
from fedmirage.common.data.tables.schema import Column, Schema, read_schema
from fedmirage.common.errors import DataError
from fedmirage.common.settings.language import nearest


def read_table(
    path: Path, schema: Path, label: str | None, columns: tuple[str, ...], form: PictureForm
) -> Raw:
    """Read all rows as one split; `columns` are further ones, for partitions that split by them."""
    described = read_schema(schema)
    if label not in (None, described.label):
        raise DataError(
            f"dataset: table(label={label!r}), but the schema {schema} is for"
            f" label = {described.label!r}; write the same in both, or leave it out of the line"
        )
    return TableReader(path, described).read(columns)


class TableReader:
    """Reads one file by a schema, and gathers all that does not fit."""

    def __init__(self, path: Path, schema: Schema, labelled: bool = True) -> None:
        self.path, self.schema, self.labelled = path, schema, labelled
        self.found = read_columns(path, schema.separator, least=2 if labelled else 1)
        self.rows = len(next(iter(self.found.values())))
        self.problems: list[str] = []
        self.column_names: dict[str, tuple[str, ...]] = {}  # what further columns number

    def read(self, columns: tuple[str, ...] = ()) -> Raw:
        """Read inputs, labels and further columns."""
        self.check_columns(columns)
        labels = self.read_labels()
        images = self.read_inputs()
        extra = {name: self.read_further(name) for name in columns if name in self.found}
        self.refuse()
        schema, split = self.schema, RawSplit(images, labels, extra)
        return Raw(
            split,
            None,
            schema.classes,
            scale=schema.scale,
            categories=find_groups(schema),
            schema=schema.text,
            column_names=self.column_names,
        )

    def read_unlabelled(self) -> Rows:
        """Read the inputs of rows whose labels do not matter, if there are any."""
        self.check_columns(())
        images = self.read_inputs()
        self.refuse()
        return images

    def read_inputs(self) -> Rows:
        """Read the columns that the schema uses, each into its channels."""
        parts = [np.zeros((self.rows, 0), np.float32)]
        for column, _ in self.schema.places():
            if column.name in self.found:
                read = self.read_numbers if column.type == "number" else self.read_categories
                parts.append(read(column))
        return np.concatenate(parts, axis=1)

    def refuse(self) -> None:
        """Raise all that was found wrong."""
        if self.problems:
            raise DataError("\n".join(f"{self.path}: {problem}" for problem in self.problems))

    def check_columns(self, further: tuple[str, ...]) -> None:
        """Note the columns that are missing, and those that the schema does not know."""
        known = {column.name for column in self.schema.column} | {self.schema.label}
        needed = [column.name for column in self.schema.column if column.type != "ignore"]
        for name in (*needed, *[self.schema.label] * self.labelled):
            if name not in self.found:
                role = "label" if name == self.schema.label else "schema's column"
                self.problems.append(
                    f"the {role} {name!r} is missing{nearest(name, self.found)}; correct the file,"
                    " or the schema of all nodes"
                )
        for name in self.found:
            if name not in known:
                self.problems.append(
                    f"the column {name!r} is not in the schema; remove it from the file, or add it"
                    " to the schema of all nodes (type = 'ignore' leaves it out)"
                )
        for name in further:
            if name not in self.found:
                self.problems.append(f"there is no column {name!r}, which columns= names")
        for name in {*needed, *further, self.schema.label} & self.found.keys():
            if not is_readable(found := self.found[name]):
                del self.found[name]
                self.problems.append(
                    f"the column {name!r} holds {found.type}; save it as numbers or texts"
                )

    def read_labels(self) -> Values:
        """Number the labels by the classes of the schema."""
        name, classes = self.schema.label, self.schema.classes
        if name not in self.found:
            return np.zeros(self.rows, np.int64)
        texts = self.texts(name)
        if missing := texts.null_count:
            self.problems.append(
                f"{self.count(missing)} of the label {name!r} are missing; fill them, or drop"
                " these rows"
            )
        places = pc.index_in(texts, pa.array(classes))
        if strange := places.null_count - missing:
            self.problems.append(
                f"{self.count(strange)} of the label {name!r} are none of the"
                f" {len(classes)} classes of the schema; correct them, or the schema of all nodes"
            )
        return np.asarray(places.fill_null(0), np.int64)

    def read_categories(self, column: Column) -> Rows:
        """Read a category: exactly one channel of every row is 1."""
        texts = self.texts(column.name)
        places = pc.index_in(texts, pa.array(column.categories))
        if strange := places.null_count - texts.null_count:
            self.problems.append(
                f"{self.count(strange)} of {column.name!r} are none of its"
                f" {len(column.categories)} categories in the schema; correct them, or the schema"
                " of all nodes"
            )
        self.check_missing(column, texts)
        # a missing value is the last category, where there is one for it
        chosen = np.asarray(places.fill_null(column.width - 1), np.int64)
        return np.eye(column.width, dtype=np.float32)[chosen]

    def read_numbers(self, column: Column) -> Rows:
        """Read a number, and whether it is missing if the schema wants to know."""
        values = np.asarray(self.to_numbers(column), np.float64)
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        missing = np.isnan(values)
        if infinite := int(np.isinf(narrow).sum()):
            self.problems.append(
                f"{self.count(infinite)} of {column.name!r} are infinite or too large; correct them"
            )
        if column.low is not None and column.high is not None:
            with np.errstate(invalid="ignore"):
                outside = np.isfinite(values) & ~((values >= column.low) & (values <= column.high))
            if count := int(outside.sum()):
                self.problems.append(
                    f"{self.count(count)} of {column.name!r} lie outside low..high of the schema;"
                    " correct them (another unit?), or widen low and high in the schema of all"
                    " nodes"
                )
        if column.missing != "indicator":
            return narrow[:, None]
        return np.stack([narrow, ~missing, missing], axis=1).astype(np.float32)

    def to_numbers(self, column: Column) -> Values:
        """Convert a column to numbers, with NaN where they are missing."""
        found = self.found[column.name]
        if pa.types.is_integer(found.type) or pa.types.is_floating(found.type):
            found = found.cast(pa.float64())
            found = pc.if_else(pc.is_nan(found), None, found)
            self.check_missing(column, found)
            return np.asarray(found.to_numpy(zero_copy_only=False))
        texts = self.texts(column.name)
        self.check_missing(column, texts)
        points = self.with_points(texts)
        infinite = pc.is_in(pc.utf8_lower(points), INFINITE)
        readable = pc.or_(is_number(points), infinite)
        if wrong := pc.sum(pc.invert(readable)).as_py():
            self.problems.append(self.explain_texts(column.name, texts, wrong))
        numbers = parse_numbers(pc.if_else(readable, points, None))
        return np.asarray(numbers.to_numpy(zero_copy_only=False))

    def with_points(self, texts: Any) -> Any:
        """Write decimal commas as points, where the schema says that the file has commas.

        A point may then separate thousands, and a text with one is no number.
        """
        if self.schema.decimal == ".":
            return texts
        return pc.replace_substring(pc.replace_substring(texts, ".", " "), ",", ".")

    def explain_texts(self, name: str, texts: Any, wrong: int) -> str:
        """Say that a column of numbers holds something else, and what it may be."""
        commas = pc.match_substring_regex(texts, r"^[+-]?\d+,\d+$")
        hint = ""
        if self.schema.decimal == "." and pc.any(commas, min_count=0).as_py():
            hint = " (decimal commas? then write decimal = ',' into the schema of all nodes)"
        return (
            f"{self.count(wrong)} of {name!r} are no numbers{hint}; correct them, or list"
            " texts that stand for missing values in `empty` of the schema"
        )

    def check_missing(self, column: Column, values: Any) -> None:
        """Note missing values that the schema does not allow."""
        if values.null_count and column.missing == "refuse":
            ways = "'mean' or 'indicator'" if column.type == "number" else "'category'"
            self.problems.append(
                f"{self.count(values.null_count)} of {column.name!r} are missing; fill them, or"
                f" write missing = {ways} into the schema of all nodes"
            )

    def read_further(self, name: str) -> Values:
        """Read a column by which a partition splits the rows, as numbers."""
        texts = self.texts(name)
        if texts.null_count:
            self.problems.append(
                f"{self.count(texts.null_count)} of {name!r} (columns=) are missing; fill them"
            )
        values: Values = np.array(texts.fill_null("").to_pylist(), str)
        (numbers,), self.column_names[name] = number_values([values], name), list_texts([values])
        return numbers

    def texts(self, name: str) -> Any:
        """Return a column as texts; those that stand for a missing value are missing."""
        texts = to_texts(self.found[name])
        empty = pc.is_in(texts, pa.array(self.schema.empty, pa.string()))
        return pc.if_else(empty, None, texts)

    def count(self, wrong: int) -> str:
        """Say how many rows are meant."""
        return f"{wrong} of the {self.rows} values"


INFINITE = pa.array([sign + text for sign in ("", "+", "-") for text in ("inf", "infinity")])


def find_groups(schema: Schema) -> tuple[tuple[int, int], ...]:
    """Find the channels of each category: (first, behind the last)."""
    placed = [(first, column.group) for column, first in schema.places()]
    return tuple((first + group[0], first + group[1]) for first, group in placed if group)
