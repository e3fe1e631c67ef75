"""The draft of a schema fits its file, teaches, and quotes no row where it refuses."""

import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fedmirage.cli import app
from fedmirage.common.data.loading import load
from fedmirage.common.errors import DataError
from fedmirage.show.schema import draft_schema, quote, widen
from tests.support.tables import line_of, write_rows, write_table


def columns(draft: str) -> dict[str, dict[str, object]]:
    return {column["name"]: column for column in tomllib.loads(draft)["column"]}


def test_the_draft_of_a_file_fits_it(tmp_path: Path) -> None:
    path = write_table(tmp_path)
    result = CliRunner().invoke(app, ["schema", str(path), "--label", "outcome"])
    assert result.exit_code == 0
    (tmp_path / "drafted.toml").write_text(result.stdout)
    data = load(line_of(path, tmp_path / "drafted.toml"))
    assert data.classes == ("no", "yes")
    found = columns(result.stdout)
    assert found["patient"] == {"name": "patient", "type": "ignore"}
    assert found["age"]["type"] == "number"
    assert found["age"]["missing"] == "mean"
    assert found["colour"]["categories"] == ["blue", "green", "red"]
    assert found["colour"]["missing"] == "category"
    assert len(data.train) + len(data.test) == 60


def test_what_each_column_looks_like(tmp_path: Path) -> None:
    rows = [
        f"{5000 + 7 * row};{100 + row};{row * 3.5:g};{row % 3};x{row};same;;{row % 2 * 10}".replace(
            ".", ","
        )
        for row in range(12)
    ]
    header = "record id;serial;dose;stage;note;unit;empty;grade"
    path = write_rows(tmp_path, *rows, header=header)
    draft = draft_schema(path, "grade")
    found = {name: column["type"] for name, column in columns(draft).items()}
    assert found == {
        "record id": "ignore",
        "serial": "ignore",
        "dose": "number",
        "stage": "number",
        "note": "ignore",
        "unit": "ignore",
        "empty": "ignore",
    }
    assert 'separator = ";"' in draft
    assert 'decimal = ","' in draft
    assert tomllib.loads(draft)["classes"] == ["0", "10"]
    assert "3 different values: if they are codes" in draft
    (tmp_path / "drafted.toml").write_text(draft)
    assert load(line_of(path, tmp_path / "drafted.toml")).shape == (2,)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    rows = [
        f"{'secret' if row == 3 else row},text {row % 150},{'' if row else 'x'}"
        for row in range(300)
    ]
    path = write_rows(tmp_path, *rows, header="dose,note,outcome")
    with pytest.raises(DataError) as raised:
        draft_schema(path, "outcome", ["town"])
    told = str(raised.value)
    assert "there is no column 'town'" in told
    assert "299 of the 300 values of the label 'outcome' are missing" in told
    assert "the 300 values of the label 'outcome' are all the same" in told
    assert "1 of the 300 values of 'dose' are no numbers, all others are" in told
    assert "'note' are 150 different texts, and 100 categories are the most" in told
    assert "secret" not in told
    assert "text 1" not in told


@pytest.mark.parametrize(
    ("rows", "label", "told"),
    [
        (("1,a", "2,b"), "kind", "there is no column 'kind'"),
        (("1,a",), "label", "has one row"),
        (("1,a", "1,b"), "label", "no column is left as an input"),
        ([f"{row % 2},{row}" for row in range(101)], "label", "101 different ones, and 100 are"),
    ],
)
def test_files_without_a_draft(
    rows: tuple[str, ...], label: str, told: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path, *rows, header="dose,label")
    result = CliRunner().invoke(app, ["schema", str(path), "--label", label])
    assert result.exit_code != 0
    assert told in str(result.exception)


def test_parquet_and_columns_that_are_neither_numbers_nor_texts(tmp_path: Path) -> None:
    days = pa.array([1, 2, 3], pa.timestamp("s"))
    table = pa.table(
        {"day": days, "ok": [True, False, True], "y": [1.0, 2.0, None], "z": [1, 0, 1]}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = columns(draft_schema(tmp_path / "t.parquet", "z"))
    assert found["day"]["type"] == "ignore"
    assert found["ok"]["categories"] == ["false", "true"]
    assert found["y"]["type"] == "number"


@pytest.mark.parametrize(
    ("lowest", "highest", "bounds"),
    [(18, 91, (0, 130)), (0, 1, (0, 2)), (-3.5, 2, (-7, 5)), (1e6, 1e6 + 4, (999998, 1000006))],
)
def test_bounds_are_round_and_wider(
    lowest: float, highest: float, bounds: tuple[float, float]
) -> None:
    assert widen(lowest, highest) == bounds


def test_texts_are_written_so_that_toml_reads_them() -> None:
    for text in ('a "b"', "c\\d", "é\t\u007f\n", "]"):
        assert tomllib.loads(f"x = {quote(text)}") == {"x": text}
    assert tomllib.loads(f"x = {quote([1.5, 1e-9, 123456789.25])}")["x"] == [
        1.5,
        1e-9,
        123456789.25,
    ]
