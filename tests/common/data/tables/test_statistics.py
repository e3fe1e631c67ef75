"""Means and deviations from sums are those of all rows together."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data.loading import load
from fedmirage.common.data.set import DataSet
from fedmirage.common.data.tables.statistics import (
    Scale,
    add_up,
    check_sums,
    find_unscaled,
    form_scale,
)
from fedmirage.common.errors import WireError
from tests.support.tables import (
    SCHEMA,
    line_of,
    with_scale,
    write_rows,
    write_schema,
    write_table,
)

UNBOUNDED = SCHEMA.replace("low = 0\nhigh = 120\n", "").replace("low = 0\nhigh = 300\n", "")


def table(folder: Path, text: str = SCHEMA) -> DataSet:
    return load(line_of(write_table(folder), write_schema(folder, text)))


@pytest.mark.parametrize("text", [SCHEMA, UNBOUNDED], ids=["bounded", "unbounded"])
def test_three_clients_form_what_numpy_finds_in_all_rows(text: str, tmp_path: Path) -> None:
    data = table(tmp_path, text)
    parts = np.array_split(np.random.default_rng(1).permutation(len(data.train)), 3)
    scale = form_scale(data, np.sum([add_up(data, part) for part in parts], axis=0))
    rows = data.train.images.astype(np.float64)
    for channel in (0, 7):
        assert scale.mean[channel] == pytest.approx(np.nanmean(rows[:, channel]), rel=1e-12)
        assert scale.std[channel] == pytest.approx(np.nanstd(rows[:, channel]), rel=1e-9)
    assert scale.mean[1:7] == (0,) * 6
    assert scale.std[1:7] == (1,) * 6


def test_only_the_rows_of_a_client_count(tmp_path: Path) -> None:
    data = table(tmp_path)
    some = np.array([3, 5, 8])
    count, total, _ = add_up(data, some)[:, 1]
    values = data.train.images[some, 7].astype(np.float64)
    assert count == np.isfinite(values).sum()
    assert 300 * total == pytest.approx(np.nansum(values))


def test_columns_whose_scale_is_in_the_schema_are_not_added_up(tmp_path: Path) -> None:
    data = table(tmp_path, with_scale())
    assert find_unscaled(data) == []
    assert data.mean[0] == 50
    assert data.std[7] == 12.5


def test_a_column_of_one_value_and_an_empty_one_are_not_divided(tmp_path: Path) -> None:
    rows = write_rows(tmp_path, "a,,red,70.1,no", "b,,red,70.1,yes", "c,,red,70.1,yes")
    data = load(line_of(rows, write_schema(tmp_path), test_share=0.0))
    scale = form_scale(data, add_up(data, np.arange(3)))
    assert (scale.mean[0], scale.std[0]) == (0, 1)
    assert scale.mean[7] == pytest.approx(70.1)
    assert scale.std[7] == 1


def test_large_offsets_lose_nothing_where_the_column_is_bounded(tmp_path: Path) -> None:
    text = SCHEMA.replace("low = 0\nhigh = 300", "low = 1e6\nhigh = 1.001e6")
    rows = [f"p{row},50,red,{1_000_500 + row % 2},{'yes' if row % 2 else 'no'}" for row in range(8)]
    data = load(line_of(write_rows(tmp_path, *rows), write_schema(tmp_path, text), test_share=0.0))
    assert form_scale(data, add_up(data, np.arange(8))).std[7] == pytest.approx(0.5, rel=1e-9)


def test_the_scale_travels_bit_for_bit(tmp_path: Path) -> None:
    scale = Scale((0.1, 1 / 3), (1e-9, 2.0))
    assert Scale.from_bytes(scale.to_bytes(), 2) == scale
    for wrong in (None, b"", Scale((0.0,), (1.0,)).to_bytes(), Scale((0.0, 0.0), (0.0, 1.0))):
        content = wrong.to_bytes() if isinstance(wrong, Scale) else wrong
        with pytest.raises(WireError):
            Scale.from_bytes(content, 2)
    data = table(tmp_path)
    assert scale.apply(data).mean == scale.mean


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((2, 2)),
        np.array([[4.0, 4], [np.nan, 1], [1, 1]]),
        np.array([[-1.0, 4], [0, 1], [0, 1]]),
        np.array([[1e12, 4], [1, 1], [1, 1]]),
        np.array([[4.0, 4], [2, 1], [0.5, 1]]),  # four values of 1/2 have squares of 1 together
        np.array([[4.0, 4], [5, 1], [5, 1]]),  # above high
        np.array([[4.0, 4], [2, 1], [3, 1]]),  # a square above its number
    ],
)
def test_sums_that_no_rows_have_are_refused(wrong: np.ndarray, tmp_path: Path) -> None:
    columns = find_unscaled(table(tmp_path))
    check_sums(np.array([[4.0, 4], [2, 1], [1, 1]]), columns, 1e9)
    with pytest.raises(WireError):
        check_sums(wrong, columns, 1e9)
