"""Drafts the schema of a table: a TOML file with comments, for people to read and to correct."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedmirage.common.data.tables import files
from fedmirage.common.data.tables.schema import EMPTY
from fedmirage.common.errors import DataError
from fedmirage.common.settings.language import nearest

MOST_CATEGORIES = 100  # different texts of one column, more of which are hardly categories
FEW = 10  # different whole numbers, which may be codes
LEAST_IDENTIFIERS = 10  # rows in which values that never repeat are taken to be identifiers
COMMA = r"^[+-]?\d+,\d+$"

HEAD = """\
# What the columns of the table mean. Read all of it, correct it, and give one copy to the server
# and to every node: they compare it (not its comments) before the first round.
version = 1

# The column that is predicted, and its classes in the order of the network's outputs. List all that
# any node may have.
label = {label}
classes = {classes}
{form}
# Texts that stand for a missing value, in any column.
empty = {empty}

# One part for each column, in any order; all nodes use the same. `type` is
#   "number"    one input. It is normalised by mean and deviation over all nodes, which are formed
#               from counts, sums and sums of squares before the first round. `mean = ` and `std = `
#               are used instead where they stand here, and differential privacy (dp) needs them.
#               `low` and `high` bound its values: a table with others is refused, and secure
#               aggregation (secagg) needs them. Below they are wider than in this file; write what
#               is possible, because everybody who gets this file can read them.
#   "category"  one input per category: 1 for the one that a row has, else 0. List all that any node
#               may have; a table with others is refused.
#   "ignore"    left out. A table may lack such a column.
# `missing` says what becomes of a missing value. Of a number: "refuse" (the whole table), "mean"
# (the mean), "indicator" (the mean, and a category of two that says so). Of a category: "refuse",
# or "category" (one more category).
"""


def draft_schema(path: Path, label: str, ignored: Sequence[str] = ()) -> str:
    """Write the draft of a schema for a file; refuse a file that has none, with all reasons."""
    text = path.suffix.lower() != ".parquet"
    separator = files.guess_separator(path) if text and path.is_file() else ","
    columns = files.read_columns(path, separator)
    decimal = guess_decimal(columns) if text and separator != "," else "."
    problems: list[str] = []
    for name in (label, *ignored):
        if name not in columns:
            problems.append(f"there is no column {name!r}{nearest(name, columns)}")
    classes = list_classes(columns[label], label, problems) if label in columns else []
    parts = [
        draft_column(name, column, name in ignored, decimal, problems)
        for name, column in columns.items()
        if name != label
    ]
    if not any('type = "ignore"' not in part for part in parts) and not problems:
        problems.append("no column is left as an input")
    if problems:
        raise DataError("\n".join(f"{path}: {problem}" for problem in problems))
    form = {"separator": separator, "decimal": decimal}
    usual = {"separator": ",", "decimal": "."}
    lines = [f"{key} = {quote(value)}\n" for key, value in form.items() if value != usual[key]]
    told = "\n# How a CSV file is written.\n" + "".join(lines) if lines else ""
    head = HEAD.format(label=quote(label), classes=quote(classes), form=told, empty=quote(EMPTY))
    return "\n".join([head, *parts])


def list_classes(column: Any, label: str, problems: list[str]) -> list[str]:
    """List the classes of the label, in the order of numbers or of the alphabet."""
    if not files.is_readable(column):
        problems.append(f"the label {label!r} holds {column.type}; save it as numbers or texts")
        return []
    texts = without_empty(files.to_texts(column))
    found = [str(text) for text in pc.unique(texts.drop_null()).to_pylist()]
    rows = f"the {len(texts)} values of the label {label!r}"
    if texts.null_count:
        problems.append(f"{texts.null_count} of {rows} are missing; fill them, or drop these rows")
    if len(found) < 2:
        problems.append(f"{rows} are all the same, so nothing can be learnt; choose another label")
    if len(found) > MOST_CATEGORIES:
        problems.append(
            f"{rows} are {len(found)} different ones, and {MOST_CATEGORIES} are the most; a label"
            " is one of a few classes"
        )
    return sorted(found, key=lambda text: (float(text) if is_whole(text) else math.inf, text))


def draft_column(name: str, column: Any, ignored: bool, decimal: str, problems: list[str]) -> str:
    """Write the part of one column, with a comment that gives the reason."""
    if ignored:
        return write_part(name, "ignore", {})
    if not files.is_readable(column):
        told = f"It holds {column.type}, which is left out; save it as numbers to use it."
        return write_part(name, "ignore", {}, told)
    texts = without_empty(files.to_texts(column))
    present = texts.drop_null()
    different, rows = pc.count_distinct(present).as_py(), len(texts)
    if different < 2:
        said = "no value" if not different else "one value only"
        return write_part(name, "ignore", {}, f"It has {said}, and so says nothing.")
    points = pc.replace_substring(present, ",", ".") if decimal == "," else present
    numeric = files.is_number(points)
    numbers = pc.sum(numeric).as_py()
    if numbers == len(present):
        return draft_number(name, np.asarray(files.parse_numbers(points)), texts.null_count)
    if 2 * numbers > len(present):
        problems.append(
            f"{len(present) - numbers} of the {rows} values of {name!r} are no numbers, all others"
            f" are; correct them, or leave the column out with --ignore {quote(name)}"
        )
    if different == len(present) >= LEAST_IDENTIFIERS:
        told = "No two rows have the same text: an identifier says nothing about other rows."
        return write_part(name, "ignore", {}, told)
    if different > MOST_CATEGORIES:
        problems.append(
            f"the {rows} values of {name!r} are {different} different texts, and"
            f" {MOST_CATEGORIES} categories are the most; group them, or leave the column out with"
            f" --ignore {quote(name)}"
        )
    keys = {"categories": sorted(map(str, pc.unique(present).to_pylist()))}
    more = {"missing": "category"} if texts.null_count else {}
    return write_part(name, "category", {**keys, **more}, tell_missing(texts.null_count))


def draft_number(name: str, values: Any, missing: int) -> str:
    """Write the part of a column of numbers, or leave out what looks like an identifier."""
    whole = bool((values == np.floor(values)).all())
    different = len(np.unique(values))
    if whole and different == len(values) >= LEAST_IDENTIFIERS and looks_like_key(name, values):
        told = (
            "It looks like an identifier: no two rows have the same whole number. If it measures"
            ' something, write type = "number".'
        )
        return write_part(name, "ignore", {}, told)
    low, high = widen(float(values.min()), float(values.max()))
    told = tell_missing(missing)
    if whole and different <= FEW:
        told += f' It has {different} different values: if they are codes, write type = "category".'
    return write_part(name, "number", {"missing": "mean", "low": low, "high": high}, told.strip())


def looks_like_key(name: str, values: Any) -> bool:
    """Whether a column of different whole numbers is named or counted like an identifier."""
    words = name.casefold().replace("-", "_").replace(" ", "_").split("_")
    named = bool({"id", "key", "nr", "no", "number", "index", "uuid"} & set(words))
    return named or name.endswith(("ID", "Id")) or np.ptp(values) < 1.5 * len(values)


def widen(lowest: float, highest: float) -> tuple[float, float]:
    """Return round bounds, half a range wider on both sides; what is never negative stays so."""
    span = highest - lowest
    step = 10.0 ** math.floor(math.log10(span))
    low = math.floor((lowest - span / 2) / step) * step
    high = math.ceil((highest + span / 2) / step) * step
    return (max(low, 0.0) if lowest >= 0 else low), high


def guess_decimal(columns: dict[str, Any]) -> str:
    """Find out whether numbers are written with commas, in a file where these separate nothing."""
    texts = [files.to_texts(column) for column in columns.values()]
    commas, points = (
        sum(pc.sum(pc.match_substring_regex(text, form)).as_py() or 0 for text in texts)
        for form in (COMMA, COMMA.replace(",", r"\."))
    )
    return "," if commas > points else "."


def without_empty(texts: Any) -> Any:
    """Make texts that stand for a missing value missing."""
    return pc.if_else(pc.is_in(texts, pa.array(EMPTY)), None, texts)


def tell_missing(count: int) -> str:
    """Say that values are missing here, but not how many."""
    return "Some values are missing." if count else ""


def is_whole(text: str) -> bool:
    """Whether a text is a whole number."""
    return text.lstrip("+-").isdecimal()


def write_part(name: str, kind: str, keys: dict[str, Any], comment: str = "") -> str:
    """Write one [[column]]."""
    lines = [f"# {comment}"] if comment else []
    lines += ["[[column]]", f"name = {quote(name)}", f"type = {quote(kind)}"]
    return "\n".join([*lines, *(f"{key} = {quote(value)}" for key, value in keys.items()), ""])


def quote(value: Any) -> str:
    """Write a text, a number or a list of texts as TOML does."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(quote, value))}]"
    if isinstance(value, float):
        return f"{value:.12g}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
