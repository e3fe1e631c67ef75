"""The sums of a table's columns survive masking; what cannot be masked or trusted is refused."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data.loading import load
from fedmirage.common.data.set import DataSet
from fedmirage.common.data.tables.statistics import add_up, find_unscaled, form_scale
from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.secagg.sums import SumsVector, require_same_table, write_table
from tests.support.tables import (
    SCHEMA,
    line_of,
    with_scale,
    write_schema,
)
from tests.support.tables import (
    write_table as write_rows,
)

CLIENTS = 5


@pytest.fixture
def data(tmp_path: Path) -> DataSet:
    """A table with two numbers whose bounds are known."""
    return load(line_of(write_rows(tmp_path), write_schema(tmp_path)))


@pytest.mark.parametrize("secagg", [SecAggOn(), SecAggOn(clip=1.0, max_examples=100)])
def test_the_sum_of_vectors_gives_the_plain_sums_to_quantisation(
    secagg: SecAggOn, data: DataSet
) -> None:
    vector = SumsVector(secagg, find_unscaled(data))
    parts = np.array_split(np.arange(len(data.train)), CLIENTS)
    alone = [add_up(data, part) for part in parts]
    coded = [vector.encode(sums) for sums in alone]
    assert all(len(one) == vector.size for one in coded)
    assert max(np.abs(one).max() for one in coded) <= 2 ** (secagg.bits - 1)
    decoded = vector.decode(np.sum(coded, axis=0), CLIENTS)
    plain = np.sum(alone, axis=0)
    assert np.abs(decoded - plain).max() <= vector.error(CLIENTS)
    assert vector.error(CLIENTS) < 1e-6
    vector.require_fine(decoded, CLIENTS)
    ours, theirs = form_scale(data, decoded), form_scale(data, plain)
    assert np.allclose(ours.mean, theirs.mean, rtol=1e-6)
    assert np.allclose(ours.std, theirs.std, rtol=1e-4)


def test_a_client_with_too_many_rows_does_not_take_part(data: DataSet) -> None:
    vector = SumsVector(SecAggOn(max_examples=10), find_unscaled(data))
    with pytest.raises(FedmirageError, match="raise max_examples"):
        vector.encode(add_up(data, np.arange(40)))


def test_false_sums_are_refused(data: DataSet) -> None:
    vector = SumsVector(SecAggOn(), find_unscaled(data))
    honest = vector.encode(add_up(data, np.arange(20)))
    vector.decode(honest, 1)
    for change in (
        honest * 0 - 10**9,
        honest + np.eye(1, vector.size, 2, dtype=np.int64)[0] * 2**38,
    ):
        with pytest.raises(WireError):
            vector.decode(change, 1)


def test_a_spread_that_drowns_in_rounding_is_refused(tmp_path: Path) -> None:
    text = SCHEMA.replace("low = 0\nhigh = 300", "low = 0\nhigh = 1e7")
    data = load(line_of(write_rows(tmp_path), write_schema(tmp_path, text)))
    vector = SumsVector(SecAggOn(), find_unscaled(data))
    sums = vector.decode(vector.encode(add_up(data, np.arange(48))), 3)
    with pytest.raises(FedmirageError, match="'weight' differ too little beside the range"):
        vector.require_fine(sums, 3)


def test_only_the_sums_of_the_same_table_are_told(data: DataSet, tmp_path: Path) -> None:
    columns = find_unscaled(data)
    require_same_table(columns, data.schema, write_table(data.schema))
    other = load(line_of(write_rows(tmp_path), write_schema(tmp_path, with_scale())))
    for schema, asked in ((other.schema, columns), (data.schema, [])):
        with pytest.raises(WireError, match="another table"):
            require_same_table(asked, data.schema, write_table(schema))
