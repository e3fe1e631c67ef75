"""What a schema may say, and every way in which it can be wrong."""

from pathlib import Path

import pytest

from fedmirage.common.data.tables.comparison import announce_schema, schema_problem
from fedmirage.common.data.tables.reading import find_groups
from fedmirage.common.data.tables.schema import parse_schema, read_schema
from fedmirage.common.errors import DataError
from tests.support.tables import SCHEMA, with_scale, write_schema

COLUMN = '[[column]]\nname = "more"\n'


def test_columns_have_places_in_the_order_of_the_schema(tmp_path: Path) -> None:
    schema = read_schema(write_schema(tmp_path))
    places = [(column.name, first) for column, first in schema.places()]
    assert places == [("age", 0), ("colour", 3), ("weight", 7)]
    assert find_groups(schema) == ((1, 3), (3, 7))
    assert [len(numbers) for numbers in schema.scale] == [8, 8]


def test_what_a_schema_says_does_not_depend_on_how_it_is_written(tmp_path: Path) -> None:
    schema = read_schema(write_schema(tmp_path))
    other = SCHEMA.replace("low = 0\n", "").replace("high = 120", "high = 120.0 # years\nlow = 0")
    other = other.replace("high = 300", "high = 300\nlow = 0.0").replace(
        'type = "ignore"', 'type = "ignore"\n# comment'
    )
    assert read_schema(write_schema(tmp_path, "\ufeff" + other)).text == schema.text
    assert parse_schema(schema.text) == schema


def test_mean_and_deviation_of_the_schema_are_used(tmp_path: Path) -> None:
    schema = read_schema(write_schema(tmp_path, with_scale()))
    assert schema.scale[0] == (50, 0, 0, 0, 0, 0, 0, 80.5)
    assert schema.scale[1] == (15, 1, 1, 1, 1, 1, 1, 12.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = = 1", "is no TOML file"),
        (SCHEMA.replace("version = 1", "version = 2"), "has version=2, and this program reads 1"),
        (SCHEMA.replace('label = "outcome"\n', ""), "needs the key 'label'"),
        (SCHEMA.replace('name = "age"\n', ""), "the column number 2 needs the key 'name'"),
        (SCHEMA.replace("[[column]]", "[column]", 1).partition("[[")[0], "below [[column]]"),
        (SCHEMA.partition("[[column]]")[0], "has no column"),
        (SCHEMA.replace("indicator", "category"), "write 'refuse' or 'mean' or 'indicator'"),
        (SCHEMA.replace('"number"', '"text"', 1), "the column 'age'(type='text')"),
        (SCHEMA.replace("low = 0\nhigh = 120", "low = 0"), "write both of low and high"),
        (SCHEMA.replace("high = 120", "high = -1"), "low=0 is not below high=-1"),
        (SCHEMA.replace("high = 120", "high = 120\nmean = 5\nstd = 0"), "greater than 0"),
        (SCHEMA.replace("high = 120", "high = nan"), "finite number"),
        (SCHEMA + COLUMN + 'type = "category"', "categories is empty"),
        (SCHEMA.replace('"green"', '"red"'), "categories has 'red' twice"),
        (SCHEMA.replace('"green"', '"NA"'), "'NA' is also in empty"),
        (SCHEMA.replace('["no", "yes"]', '["yes", "yes"]'), "classes has 'yes' twice"),
        (SCHEMA.replace('["no", "yes"]', '["yes"]'), "at least 2 items"),
        (SCHEMA + '[[column]]\nname = "age"\ntype = "ignore"', "'age' is named twice"),
        (SCHEMA + '[[column]]\nname = "outcome"\ntype = "ignore"', "'outcome' is named twice"),
        (SCHEMA + COLUMN + 'type = "ignore"\nlow = 1\nhigh = 2', "type='ignore' has no key 'high'"),
        (SCHEMA + COLUMN + 'type = "number"\nunit = "kg"', "the column 'more' has no key 'unit'"),
        (SCHEMA.replace('"number"', '"ignore"').replace('"category"', '"ignore"'), "has no key"),
        ('separator = ","\ndecimal = ","' + SCHEMA, "one of them must be another"),
    ],
)
def test_what_is_wrong_is_told_with_the_columns_name(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        read_schema(write_schema(tmp_path, text))
    assert told in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = SCHEMA.replace("high = 120", "high = -1").replace('"green"', '"red"')
    with pytest.raises(DataError) as raised:
        read_schema(write_schema(tmp_path, text))
    assert "'age'" in str(raised.value)
    assert "'colour'" in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("high = 120", "high = 121", "what it says of the column 'age' differs"),
        ('"weight"', '"mass"', "only the schema here has the column 'mass'"),
        ('["no", "yes"]', '["yes", "no"]', "classes differs"),
    ],
)
def test_a_difference_is_told_in_full_only_to_the_node(
    old: str, new: str, place: str, tmp_path: Path
) -> None:
    ours = read_schema(write_schema(tmp_path, SCHEMA.replace(old, new))).text
    told = announce_schema(read_schema(write_schema(tmp_path)).text)
    problem = schema_problem(ours, told)
    assert problem is not None
    assert place in problem[1]
    assert "'" not in problem[0].replace("server's", "")
    assert schema_problem(told["schema"], told) is None
    assert schema_problem("", announce_schema("")) is None


@pytest.mark.parametrize("told", ["", "{", "[]", '{"version": 2}'])
def test_a_schema_that_no_server_sends_is_refused(told: str, tmp_path: Path) -> None:
    problem = schema_problem(read_schema(write_schema(tmp_path)).text, {"schema": told})
    assert problem is not None
    assert "cannot be read" in problem[1]
