"""FedDyn: two rounds by hand, the fixed point, the common optimum, h as the mean of all h_i,
BatchNorm."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.memory import Memory
from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.hand import Federation, linear_model, settings
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, weights

TOWARDS_0, TOWARDS_4 = ([[1.0]], [0.0]), ([[1.0]], [4.0])  # losses w^2/2 and (w - 4)^2/2


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    """Clients A and B with losses w^2/2 and (w - 4)^2/2, two steps, lr 1/2, alpha 1, from w = 1; h
    and both h_i are zero.

    Round 1. A: the gradient is 1, so 1/2; there it is 1/2 + alpha (1/2 - 1) = 0, so it stays: w_A =
    1/2. B: -3, so 5/2; there -3/2 + 3/2 = 0: w_B = 5/2. The average is 3/2, and the mean move 1/2,
    so h = -1/2 and w = 3/2 + 1/2 = 2. h_A = -(1/2 - 1) = 1/2 and h_B = -3/2 are the gradients of
    the clients' losses at w_A and w_B. Round 2, from 2. A: 2 - h_A = 3/2, so 5/4; there 5/4 - 1/2 +
    (5/4 - 2) = 0. B: -2 + 3/2 = -1/2, so 9/4; there -7/4 + 3/2 + 1/4 = 0. The average is 7/4, the
    mean move -1/4, so h = -1/2 + 1/4 = -1/4 and w = 7/4 + 1/4 = 2, the optimum. h_A = 1/2 + 3/4 =
    5/4, h_B = -3/2 - 1/4 = -7/4.
    """
    hand = Federation(
        tmp_path, settings("feddyn(alpha=1)"), linear_model(1.0), [[TOWARDS_0] * 2, [TOWARDS_4] * 2]
    )
    assert hand.run()[0].item() == 2
    assert [hand.remembered(client, "feddyn.gradient")[0].item() for client in (0, 1)] == [
        1 / 2,
        -3 / 2,
    ]
    assert hand.strategy.state.gradient[0].item() == -1 / 2
    assert hand.run()[0].item() == 2
    assert [hand.remembered(client, "feddyn.gradient")[0].item() for client in (0, 1)] == [
        5 / 4,
        -7 / 4,
    ]
    assert hand.strategy.state.gradient[0].item() == -1 / 4


def test_round_one_does_not_depend_on_alpha_on_the_server(tmp_path: Path) -> None:
    """The first step has no penalty yet, and h / alpha is the mean move: w + 2 mean (w_i - w)."""
    for alpha in (0.01, 1.0):
        hand = Federation(
            tmp_path / str(alpha),
            settings(f"feddyn(alpha={alpha})"),
            linear_model(1.0),
            [[TOWARDS_0], [TOWARDS_4]],
        )
        assert hand.run()[0].item() == pytest.approx(1 + 2 * (1.5 - 1))


def test_the_fixed_point(tmp_path: Path) -> None:
    """Nothing moves at the optimum w = 2, if h_A = 2 and h_B = -2 are the gradients there.

    Their mean h is 0.
    """
    hand = Federation(
        tmp_path,
        settings("feddyn(alpha=0.1)"),
        linear_model(2.0),
        [[TOWARDS_0] * 3, [TOWARDS_4] * 3],
    )
    for client, gradient in ((0, 2.0), (1, -2.0)):
        memory = hand.memory(client, 0)
        memory.put("feddyn.gradient", [np.array([[gradient]], np.float32)])
        memory.close()
    assert hand.run(3)[0].item() == 2
    assert hand.strategy.state.gradient[0].item() == 0
    assert [hand.remembered(client, "feddyn.gradient")[0].item() for client in (0, 1)] == [2, -2]


def test_it_finds_the_optimum_that_fedavg_misses(tmp_path: Path) -> None:
    """Losses w^2/2 and (2 w - 4)^2/2 have their common optimum where w + 2 (2 w - 4) = 0, at
    8/5."""
    clients = [[([[1.0]], [0.0])] * 20, [([[2.0]], [4.0])] * 20]
    found = {
        methods: (
            Federation(tmp_path / methods, settings(methods, lr=0.1), linear_model(0.0), clients)
            .run(60)[0]
            .item()
        )
        for methods in ("fedavg", "feddyn(alpha=1)")
    }
    assert found["feddyn(alpha=1)"] == pytest.approx(1.6, abs=1e-3)
    assert abs(found["fedavg"] - 1.6) > 0.1


@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_the_servers_h_is_the_mean_of_all_clients_whoever_takes_part(
    tmp_path: Path, weighting: str
) -> None:
    """h = (1/N) sum_i h_i, with zero for clients that never took part.

    This also holds if models are averaged by examples.
    """
    clients = [[TOWARDS_0] * 2, [TOWARDS_4] * 2, [TOWARDS_4]]
    hand = Federation(tmp_path, settings("feddyn", weighting=weighting), linear_model(1.0), clients)
    for drawn in ([0], [1], [0, 2], [1, 2], [0, 1, 2]):
        hand.run(drawn=drawn)
        own = [hand.remembered(client, "feddyn.gradient") for client in range(3)]
        mean = sum(0.0 if gradient is None else gradient[0].item() for gradient in own) / 3
        assert hand.strategy.state.gradient[0].item() == pytest.approx(mean)
        assert mean != 0


def test_running_statistics_are_only_averaged(tmp_path: Path) -> None:
    """After round one they are FedAvg's, since with one local step the penalty has not acted."""
    one = {**SMALL, "rounds": 1, "local_steps": 1, "model": "lenet-bn"}
    run_in_process(tmp_path / "fedavg", **one)
    run_in_process(tmp_path / "feddyn", **one, methods="feddyn")
    same = [
        a.tobytes() == b.tobytes()
        for a, b in zip(weights(tmp_path / "fedavg"), weights(tmp_path / "feddyn"), strict=True)
    ]
    assert sum(same) == 2 * 2
    assert len(
        read_checkpoint(tmp_path / "feddyn" / "checkpoint.safetensors").strategy["feddyn.gradient"]
    ) == len(same) - sum(same)


def test_clients_that_cannot_train_change_nothing(tmp_path: Path) -> None:
    """BatchNorm cannot train on one sample: no step, no model, no h."""
    one = {"model": "lenet-bn", "partition": "classes(per_client=1, samples=1)"}
    run_in_process(tmp_path, **{**SMALL, "rounds": 2}, **one, methods="feddyn")
    assert read_checkpoint(tmp_path / "checkpoint.safetensors").strategy["feddyn.gradient"] == []


def test_a_warm_start_begins_with_zeros_on_both_sides(tmp_path: Path) -> None:
    run_in_process(tmp_path / "start", **{**SMALL, "rounds": 2}, methods="feddyn")
    run_in_process(tmp_path / "warm", **SMALL, methods="feddyn", warm_start=str(tmp_path / "start"))
    state = read_checkpoint(tmp_path / "warm" / "checkpoint.safetensors")
    own = [
        Memory(folder, 4).get("feddyn.gradient")
        for folder in sorted((tmp_path / "warm" / "memory" / state.token).iterdir())
    ]
    assert len(own) == SMALL["clients"]
    mean = np.mean([gradient[0] for gradient in own if gradient is not None], axis=0)
    np.testing.assert_allclose(state.strategy["feddyn.gradient"][0], mean, rtol=1e-4, atol=1e-8)
