"""A table is read as its schema says, or refused with a sentence that quotes no value."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedmirage.common.data.loading import load
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import DataError, FedmirageError
from tests.support.tables import HEADER, SCHEMA, line_of, write_rows, write_schema, write_table

GOOD = ("p1,30,red,70.5,no", "p2,40,blue,80,yes", "p3,,,NA,yes", "p4, +5e1 , red ,60,no")


def read(path: Path, text: str = SCHEMA, **more: Any) -> DataSet:
    """Load a table with a schema of this text beside it."""
    return load(line_of(path, write_schema(path.parent, text), test_share=0.0, **more))


def test_numbers_categories_and_missing_values_take_their_places(tmp_path: Path) -> None:
    found = load(line_of(write_rows(tmp_path, *GOOD), write_schema(tmp_path), test_share=0.0))
    nan = np.nan
    rows = [
        [30, 1, 0, 1, 0, 0, 0, 70.5],
        [40, 1, 0, 0, 0, 1, 0, 80],
        [nan, 0, 1, 0, 0, 0, 1, nan],
        [50, 1, 0, 1, 0, 0, 0, 60],
    ]
    assert np.array_equal(found.train.images, np.array(rows, np.float32), equal_nan=True)
    assert found.train.labels.tolist() == [0, 1, 1, 0]
    assert found.classes == ("no", "yes")
    assert [tuple(group) for group in found.categories] == [(1, 3), (3, 7)]


def test_parquet_gives_the_same_as_csv(tmp_path: Path) -> None:
    columns = {
        "patient": ["p1", "p2", "p3", "p4"],
        "age": [30.0, 40, None, 50],
        "colour": pa.array(["red", "blue", None, "red"]).dictionary_encode(),
        "weight": [70.5, 80, float("nan"), 60],
        "outcome": ["no", "yes", "yes", "no"],
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    schema = write_schema(tmp_path)
    ours, theirs = (
        load(line_of(path, schema))
        for path in (tmp_path / "rows.parquet", write_rows(tmp_path, *GOOD))
    )
    assert ours.fingerprint == theirs.fingerprint


def test_a_bom_semicolons_and_decimal_commas_are_read(tmp_path: Path) -> None:
    text = 'separator = ";"\ndecimal = ","\n' + SCHEMA
    rows = [row.replace(",", ";").replace(".", ",") for row in GOOD]
    path = write_rows(tmp_path, *rows, header="\ufeff" + HEADER.replace(",", ";"), name="b.csv")
    schema = write_schema(tmp_path, text, "european.toml")
    other = load(line_of(write_rows(tmp_path, *GOOD), write_schema(tmp_path)))
    assert load(line_of(path, schema)).fingerprint == other.fingerprint


def test_whole_numbers_are_categories_however_a_file_stores_them(tmp_path: Path) -> None:
    text = SCHEMA.replace('"red", "green", "blue"', '"1", "2"')
    pq.write_table(
        pa.table(
            {"age": [1, 2], "colour": [1.0, None], "weight": [1, 2], "outcome": ["no", "yes"]}
        ),
        tmp_path / "codes.parquet",
    )
    found = read(tmp_path / "codes.parquet", text)
    assert found.train.images[:, 3:6].tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_column_can_split_the_rows(tmp_path: Path) -> None:
    found = read(write_rows(tmp_path, *GOOD), columns=("patient",))
    assert found.train.columns["patient"].tolist() == [0, 1, 2, 3]


def refusal(path: Path, text: str = SCHEMA, **more: Any) -> str:
    """Return the sentences with which a table is refused; none quotes what stands in a row."""
    with pytest.raises(FedmirageError) as raised:
        read(path, text, **more)
    return str(raised.value).replace(str(path.parent), "")


def test_all_problems_of_a_table_are_told_at_once_without_a_value(tmp_path: Path) -> None:
    rows = (
        "p1,secret,purple,130000,no",
        "p2,inf,,400,maybe",
        "p3,7e99,red,,",
        "p4,1e39,red,80,yes",
    )
    text = SCHEMA.replace('missing = "mean"\n', "").replace("low = 0\nhigh = 120\n", "")
    told = refusal(write_rows(tmp_path, *rows, header=HEADER + ""), text)
    for part in (
        "1 of the 4 values of the label 'outcome' are missing",
        "1 of the 4 values of the label 'outcome' are none of the 2 classes",
        "1 of the 4 values of 'age' are no numbers",
        "3 of the 4 values of 'age' are infinite or too large",
        "1 of the 4 values of 'colour' are none of its 3 categories",
        "1 of the 4 values of 'weight' are missing",
        "2 of the 4 values of 'weight' lie outside low..high",
    ):
        assert part in told
    for value in ("secret", "purple", "130000", "400", "maybe", "7e99", "1e39"):
        assert value not in told


def test_columns_that_lack_or_are_not_in_the_schema(tmp_path: Path) -> None:
    rows = ("1,red,no,x", "2,red,yes,y")
    told = refusal(write_rows(tmp_path, *rows, header="Age,colour,outcome,notes"))
    assert "the schema's column 'age' is missing" in told
    assert "the schema's column 'weight' is missing" in told
    assert "the column 'Age' is not in the schema" in told
    assert "the column 'notes' is not in the schema" in told
    assert "patient" not in told.replace("'patient'", "") or "ignore" in told
    told = refusal(write_rows(tmp_path, *GOOD, header=HEADER.replace("outcome", "result")))
    assert "the label 'outcome' is missing" in told
    assert "there is no column 'town'" in refusal(write_rows(tmp_path, *GOOD), columns=("town",))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"\n\n", "does not begin with a line of column names"),
        (HEADER.encode(), "has no row below"),
        (f"{HEADER}\n{GOOD[0]}\n".encode(), "has one row below"),
        (f"{HEADER}\n{GOOD[0]}\n{GOOD[1]}\n".encode("utf-16"), "no UTF-8 text"),
        (f"{HEADER}\n{GOOD[0]}\np2,40,gr\u00fcn,80,yes".encode("latin-1"), "no UTF-8 text"),
        (f"{HEADER},age\n{GOOD[0]},1\n{GOOD[1]},2\n".encode(), "'age' is there more than once"),
        (f"{HEADER},\n{GOOD[0]},1\n{GOOD[1]},2\n".encode(), "column 6 has no name"),
        (f"{HEADER}\n{GOOD[0]}\n{GOOD[1]},5\n".encode(), "1 rows do not have 5 values"),
        (
            "\n".join([HEADER, *GOOD]).replace(",", ";").encode(),
            "they seem to be separated by semicolons: write separator = ';'",
        ),
        (
            f'{HEADER}\np1,"30,5",red,70,no\n{GOOD[1]}\n'.encode(),
            "(decimal commas? then write decimal = ','",
        ),
    ],
)
def test_a_damaged_file_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    assert told in refusal(path)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 nothing")
    assert "is damaged or is not a parquet file" in refusal(tmp_path / "rows.parquet")
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    assert "must end with .csv or .parquet" in refusal(tmp_path / "rows.xlsx")
    days = pa.table({"age": pa.array([1, 2], pa.timestamp("s")), "colour": ["red", "red"]})
    days = days.append_column("weight", pa.array([[1], [2]])).append_column(
        "outcome", pa.array(["no", "yes"])
    )
    pq.write_table(days, tmp_path / "days.parquet")
    told = refusal(tmp_path / "days.parquet")
    assert "the column 'age' holds timestamp" in told
    assert "the column 'weight' holds list" in told


def test_a_line_that_contradicts_the_schema(tmp_path: Path) -> None:
    path = write_rows(tmp_path, *GOOD)
    assert "the schema" in refusal(path, label="age")
    assert "label = 'outcome'" in refusal(path, label="age")
    assert read(path, label="outcome").classes == ("no", "yes")
    assert "the schema lists the classes" in refusal(path, classes=("no", "yes"))
    with pytest.raises(DataError, match=r"table\(schema='nowhere.toml'\): neither"):
        load(line_of(path, Path("nowhere.toml")))


def test_a_column_that_is_ignored_may_be_missing(tmp_path: Path) -> None:
    rows = [row.partition(",")[2] for row in GOOD]
    path = write_rows(tmp_path, *rows, header=HEADER.partition(",")[2])
    assert read(path).shape == (8,)


def test_the_cached_copy_is_private_and_follows_the_schema(tmp_path: Path) -> None:
    path, schema = write_table(tmp_path), write_schema(tmp_path)
    first = load(line_of(path, schema))
    assert load(line_of(path, schema)).schema == first.schema
    schema.write_text(SCHEMA.replace("high = 120", "high = 150"))
    again = load(line_of(path, schema))
    assert again.schema != first.schema
    assert again.fingerprint == first.fingerprint
