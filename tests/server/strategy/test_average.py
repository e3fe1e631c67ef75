"""The innermost average: hand-worked sums, partition order, refusals."""

import numpy as np
import pytest
from flwr.common import (
    FitRes,
    Parameters,
    parameters_to_ndarrays,
)

from fedmirage.common.errors import WireError
from fedmirage.server.strategy.average import Average, mean_metrics, shares_of, weighted_mean
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
