"""The innermost average: hand-worked sums, partition order, refusals."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from flwr.common import (
    FitRes,
    Parameters,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)

from fedmirage.common.errors import WireError
from fedmirage.common.wire.filed import write_tensors
from fedmirage.server.strategy import average as averages
from fedmirage.server.strategy.average import (
    Average,
    mean_metrics,
    mean_tensor,
    shares_of,
    weighted_mean,
)
from tests.support.strategies import Client, reply


def average(*clients: FitRes, weighting: str = "examples") -> np.ndarray:
    strategy = Average([np.zeros(2, np.float32)], weighting=weighting)
    aggregated, _ = strategy.aggregate_fit(
        1, [(Client(number), client) for number, client in enumerate(clients)], []
    )
    assert aggregated is not None
    (array,) = parameters_to_ndarrays(aggregated)
    return array


def test_by_examples_by_hand() -> None:
    """(1 * [1, 2] + 3 * [5, 6]) / 4 = [4, 5]."""
    np.testing.assert_array_equal(
        average(reply([1, 2], 1), reply([5, 6], 3)), np.array([4, 5], np.float32)
    )


def test_uniform_by_hand() -> None:
    """([1, 2] + [5, 6]) / 2 = [3, 4], whatever the examples."""
    np.testing.assert_array_equal(
        average(reply([1, 2], 1), reply([5, 6], 3), weighting="uniform"),
        np.array([3, 4], np.float32),
    )


def test_a_client_that_trained_on_nothing_weighs_nothing() -> None:
    np.testing.assert_array_equal(
        average(reply([1, 2], 4), reply([9, 9], 0)), np.array([1, 2], np.float32)
    )
    np.testing.assert_array_equal(
        average(reply([1, 2], 4), reply([9, 9], 0), weighting="uniform"),
        np.array([1, 2], np.float32),
    )
    strategy = Average([np.zeros(2, np.float32)])
    assert strategy.aggregate_fit(1, [(Client(0), reply([1, 2], 0))], []) == (None, {})
    assert strategy.aggregate_fit(1, [], []) == (None, {})


def test_the_same_bits_in_any_order_of_arrival() -> None:
    generator = np.random.default_rng(0)
    replies = [
        (Client(number), reply(list(generator.normal(size=2)), int(generator.integers(1, 99))))
        for number in range(20)
    ]
    strategy = Average([np.zeros(2, np.float32)])
    there, _ = strategy.aggregate_fit(1, replies, [])
    back, _ = strategy.aggregate_fit(1, replies[::-1], [])
    assert isinstance(there, Parameters)
    assert isinstance(back, Parameters)
    assert there.tensors == back.tensors


def test_types_come_back_as_they_were() -> None:
    mean = weighted_mean(
        [[np.ones(2, np.float32)], [np.ones(2, np.float32)]], [0.5, 0.5], [np.dtype(np.float32)]
    )
    assert mean[0].dtype == np.float32


def test_an_unclaimed_section_is_an_error() -> None:
    with pytest.raises(WireError, match="no method claims the section 'control'"):
        average(reply([1, 2], 1, layout="shared:0 control:1"))


def test_terms_are_averaged_by_examples() -> None:
    strategy = Average([np.zeros(2, np.float32)])
    replies = [
        (Client(0), reply([1, 2], 1, **{"term.task": 4.0})),
        (Client(1), reply([1, 2], 3, **{"term.task": 8.0})),
    ]
    assert strategy.aggregate_fit(1, replies, [])[1] == {"term.task": 7.0}


def test_participation_is_the_nearest_number_of_clients() -> None:
    assert Average([], participation=0.29).num_fit_clients(100) == (29, 1)
    assert Average([], participation=0.01).num_fit_clients(5) == (1, 1)


def test_shares_sum_to_one() -> None:
    assert shares_of([1, 1, 2], "examples") == [0.25, 0.25, 0.5]
    assert shares_of([0, 0], "examples") is None


def test_a_client_with_fewer_metrics_does_not_erase_those_of_the_others() -> None:
    results = [
        (0, {"steps": 0}),
        (10, {"term.task": 1.0, "steps": 3}),
        (30, {"term.task": 2.0, "steps": 3, "extra": 5.0}),
    ]
    assert mean_metrics(results) == {"term.task": 1.75, "steps": 3.0, "extra": 5.0}


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3), (5, 7, 11)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_an_array_is_averaged_in_blocks_with_the_same_bits(
    shape: tuple[int, ...], dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where some replies are in files, and for a single number."""
    generator = np.random.default_rng(0)
    arrays = [np.asarray(generator.normal(size=shape)).astype(dtype) for _ in range(3)]
    weights, types = [0.5, 0.2, 0.3], [np.dtype(dtype)]
    expected = ndarrays_to_parameters(weighted_mean([[one] for one in arrays], weights, types))
    models: list[Sequence[bytes]] = [ndarrays_to_parameters([one]).tensors for one in arrays]
    monkeypatch.setattr(averages, "BLOCK", 4)
    assert mean_tensor(models, 0, weights, types[0]) == expected.tensors[0]
    models[1] = write_tensors(tmp_path / "1.safetensors", models[1])
    assert mean_tensor(models, 0, weights, types[0]) == expected.tensors[0]


def test_a_single_number_is_averaged_too() -> None:
    models = [[np.array(value, np.float32)] for value in (1.0, 3.0)]
    assert weighted_mean(models, [0.25, 0.75], [np.dtype(np.float32)])[0] == 2.5
