"""Reads a table as columns of texts and numbers, without guessing what they mean.

No message about a file quotes any of its values: it is somebody's data. Names of columns and counts
of rows say enough to find them.
"""

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from fedmirage.common.data.tables.schema import find_repeated
from fedmirage.common.errors import DataError, reason

SEPARATORS = (",", ";", "\t", "|")
WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
LONGEST_HEADER = 2**20  # bytes of a file in which its first line must end


def read_columns(path: Path, separator: str = ",", least: int = 2) -> dict[str, Any]:
    """Read all columns of a file by name: texts of a CSV file, and what a parquet file holds.

    A file with fewer than the `least` rows is refused.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".txt", ".parquet"):
        raise DataError(f"{path} must end with .csv or .parquet; save it as one of these")
    try:
        if not path.stat().st_size:
            raise DataError(f"{path} is empty; save the table again, with a line of column names")
        table = _read_parquet(path) if suffix == ".parquet" else _read_csv(path, separator)
    except OSError as error:
        if isinstance(error, pa.ArrowException):
            raise DataError(f"{path} is damaged; save it again") from None
        raise DataError(f"{reason(error)}; check the path") from None
    names = [name.strip() for name in table.column_names]
    _check_names(path, names)
    if len(table) < least:
        rows = "one row" if len(table) else "no row"
        needed = "two or more" if least > 1 else "one or more"
        raise DataError(f"{path} has {rows} below its column names; a table needs {needed}")
    return dict(zip(names, (column.combine_chunks() for column in table.columns), strict=True))


def read_header(path: Path, separator: str) -> list[str]:
    """Read the column names of a CSV file, as they stand there."""
    with path.open("rb") as file:
        beginning = file.read(LONGEST_HEADER)
    if beginning[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in beginning:
        raise DataError(f"{path} is no UTF-8 text (UTF-16?); save it as CSV in UTF-8")
    lines = beginning.decode("utf-8-sig", errors="replace").splitlines(keepends=True)
    try:
        names = next(csv.reader(lines, delimiter=separator), [])
    except csv.Error:
        names = []
    if not names:
        raise DataError(f"{path} does not begin with a line of column names; add it")
    return names


def guess_separator(path: Path) -> str:
    """Find the separator that gives the most column names."""
    return max(SEPARATORS, key=lambda separator: len(read_header(path, separator)))


def to_texts(column: Any) -> Any:
    """Return a column as texts without blanks around them; missing values stay missing.

    Whole numbers are written without a decimal point: a file that has missing values among them
    often holds floats.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        whole = pc.all(pc.equal(column, pc.floor(column)), min_count=0).as_py()
        fits = pc.all(pc.less(pc.abs(column), 2.0**53), min_count=0).as_py()
        column = column.cast(pa.int64()) if whole and fits else column
    return pc.utf8_trim_whitespace(column.cast(pa.string()))


def is_number(texts: Any) -> Any:
    """Say of every text whether it is a number with a decimal point."""
    return pc.match_substring_regex(texts, NUMBER)


def parse_numbers(texts: Any) -> Any:
    """Turn texts that are numbers with a decimal point into such."""
    return pc.utf8_ltrim(texts, characters="+").cast(pa.float64())


def is_readable(column: Any) -> bool:
    """Whether a column of a file holds numbers, texts or truth values."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    return any(check(kind) for check in (*checks, pa.types.is_large_string, pa.types.is_null))


def _check_names(path: Path, names: list[str]) -> None:
    problems = [
        f"{path}: the column {name!r} is there more than once; rename or remove one"
        for name in find_repeated([name for name in names if name])
    ]
    if "" in names:
        places = ", ".join(str(place) for place, name in enumerate(names, 1) if not name)
        problems.append(f"{path}: column {places} has no name; write one into the first line")
    if problems:
        raise DataError("\n".join(problems))


def _read_csv(path: Path, separator: str) -> Any:
    """Read a CSV file as texts. A row with too many or too few values refuses the file."""
    names = read_header(path, separator)
    _check_names(path, [name.strip() for name in names])
    if len(names) == 1 and (other := guess_separator(path)) != separator:
        raise DataError(
            f"{path} has one column, if its values are separated by {WORDS[separator]}; they seem"
            f" to be separated by {WORDS[other]}: write separator = {other!r} into the schema, or"
            f" save the file with {WORDS[separator]}"
        )
    torn: list[int] = []

    def skip(row: Any) -> str:
        torn.append(row.actual_columns)
        return "skip"

    try:
        table = pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:  # whose text may quote a row
        if "Empty CSV" in str(error):
            return pa.table({name: pa.array([], pa.string()) for name in names})
        wrong = "UTF8" in str(error) or "UTF-8" in str(error)
        what = "is no UTF-8 text; save it as CSV in UTF-8" if wrong else "is damaged; save it again"
        raise DataError(f"{path} {what}") from None
    if torn:
        raise DataError(
            f"{path}: {len(torn)} rows do not have {len(names)} values as the first line has"
            " column names; correct them (does a text contain the separator without quotes?)"
        )
    return table


def _read_parquet(path: Path) -> Any:
    try:
        return pq.read_table(path)
    except pa.ArrowException:
        raise DataError(f"{path} is damaged or is not a parquet file; get it again") from None
