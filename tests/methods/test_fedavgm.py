"""FedAvgM: FedAvg without momentum, two rounds by hand, the broadcast model as reference, resume,
BatchNorm."""

from pathlib import Path

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters
from flwr.server.strategy import FedAvg

from fedmirage.common.methods.fedavgm import FedAvgM
from fedmirage.server.methods.fedavgm import FedAvgMServer
from fedmirage.server.strategy.rule import plus
from tests.support.inprocess import run_in_process
from tests.support.rules import assert_buffers_are_averaged, one_round, reply, rule
from tests.support.runs import SMALL, KilledError, assert_same_bits, kill_in_round, weights
from tests.support.strategies import Client, Manager


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_without_momentum_it_is_fedavg_bit_for_bit(tmp_path: Path, model: str) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, model=model)
    run_in_process(tmp_path / "fedavgm", **SMALL, model=model, methods="fedavgm(momentum=0)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedavgm")


def test_momentum_matters(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL)
    run_in_process(tmp_path / "fedavgm", **SMALL, methods="fedavgm")
    assert weights(tmp_path / "fedavg")[0].tobytes() != weights(tmp_path / "fedavgm")[0].tobytes()


def test_two_rounds_by_hand() -> None:
    """momentum 0.5, lr 1, w = [1, 2].

    Round 1: clients return [3, 2] and [5, 6], average [4, 4]; D = [3, 2], v = 0.5 * 0 + D = [3, 2],
    w = [1, 2] + v = [4, 4]. Round 2: clients return [4, 3] and [6, 3], average [5, 3]; D = [1, -1],
    v = 0.5 * [3, 2] + D = [2.5, 0], w = [6.5, 4].
    """
    strategy = rule("fedavgm(momentum=0.5)", 2)
    assert one_round(strategy, [[1, 2]], reply([3, 2]), reply([5, 6])) == [[4, 4]]
    assert one_round(strategy, [[4, 4]], reply([4, 3]), reply([6, 3])) == [[6.5, 4]]
    assert strategy.state.velocity[0].tolist() == [2.5, 0]


def test_learning_rate_and_nesterov_by_hand() -> None:
    """The same first round, D = v = [3, 2]: with lr 0.5, w = [1, 2] + 0.5 v = [2.5, 3].

    Nesterov: w = [1, 2] + 0.5 v + D = [5.5, 5]; with lr 0.5, w = [1, 2] + 0.5 * [4.5, 3] = [3.25,
    3.5].
    """
    replies = reply([3, 2]), reply([5, 6])
    assert one_round(rule("fedavgm(momentum=0.5, lr=0.5)", 2), [[1, 2]], *replies) == [[2.5, 3]]
    assert one_round(rule("fedavgm(momentum=0.5, nesterov=True)", 2), [[1, 2]], *replies) == [
        [5.5, 5]
    ]
    assert one_round(
        rule("fedavgm(momentum=0.5, nesterov=True, lr=0.5)", 2), [[1, 2]], *replies
    ) == [[3.25, 3.5]]


def test_the_reference_is_what_was_broadcast() -> None:
    """After round 1 (w = [4, 4], v = [3, 2]), an outer method replaces w by [10, 0].

    The clients return [12, 1]. D = [2, 1] relative to [10, 0], so v = 0.5 * [3, 2] + [2, 1] = [3.5,
    2] and w = [13.5, 2]. Relative to the rule's own [4, 4], D would be [8, -3].
    """
    strategy = rule("fedavgm(momentum=0.5)", 2)
    one_round(strategy, [[1, 2]], reply([3, 2]), reply([5, 6]))
    assert one_round(strategy, [[10, 0]], reply([12, 1]), reply([12, 1])) == [[13.5, 2]]


def test_a_round_in_which_nobody_trained_changes_nothing() -> None:
    strategy = rule("fedavgm(momentum=0.5)", 2)
    one_round(strategy, [[1, 2]], reply([3, 2]), reply([5, 6]))
    assert strategy.aggregate_fit(2, [(Client(0), reply([9, 9], examples=0))], []) == (None, {})
    assert strategy.state.velocity[0].tolist() == [3, 2]


def test_it_wraps_flowers_own_strategy() -> None:
    strategy = FedAvgMServer(
        FedAvg(min_fit_clients=1, min_available_clients=1), FedAvgM(momentum=0.5)
    )
    strategy.configure_fit(1, ndarrays_to_parameters([np.array([1, 2], np.float32)]), Manager())
    assert one_round(strategy, [[1, 2]], reply([3, 2]), reply([5, 6])) == [[4, 4]]


def test_adding_nothing_keeps_the_bits_of_a_negative_zero() -> None:
    average = np.array([-0.0, 1.0], np.float32)
    assert plus(average, np.array([0.0, -0.0], np.float32)).tobytes() == average.tobytes()


def test_running_statistics_are_only_averaged(tmp_path: Path) -> None:
    assert_buffers_are_averaged(tmp_path, "fedavgm(momentum=0.9)")
    strategy = rule("fedavgm(momentum=0.5)", 1, 1, trainable=(True, False))
    one_round(strategy, [[0], [0]], reply([2], [2]))
    assert one_round(strategy, [[2], [2]], reply([2], [2])) == [[3], [2]]
    assert len(strategy.state.velocity) == 1


@pytest.mark.parametrize("methods", ["fedavgm(momentum=0.9)", "fedadam"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, methods: str) -> None:
    settings = {**SMALL, "rounds": 4, "participation": 0.75, "methods": methods}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
