"""SCAFFOLD: round one, two rounds by hand, momentum, control variates that start at zero, are kept,
change and are used."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import Memory
from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.hand import Federation, linear_model, settings
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits, lines, weights

TOWARDS_0, TOWARDS_4 = ([[1.0]], [0.0]), ([[1.0]], [4.0])  # losses w^2/2 and (w - 4)^2/2


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_round_one_is_fedavg_bit_for_bit(tmp_path: Path, model: str, weighting: str) -> None:
    settings = {**SMALL, "rounds": 1, "model": model, "weighting": weighting, "weight_decay": 1e-3}
    run_in_process(tmp_path / "fedavg", **settings)
    run_in_process(tmp_path / "scaffold", **settings, methods="scaffold")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "scaffold")


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    """Clients A and B with losses w^2/2 and (w - 4)^2/2, K = 2 steps, lr 1/2, no momentum, from w =
    1.

    Round 1, all control variates zero. A: 1, 1/2, 1/4; c_A = (1 - 1/4) / (2 . 1/2) = 3/4, the mean
    of its gradients 1 and 1/2. B: 1, 5/2, 13/4; c_B = -9/4. The average is 7/4, and c = (3/4 - 9/4)
    / 2 = -3/4. Round 2, from 7/4. A steps along w + c - c_A = w - 3/2: 7/4, 13/8, 25/16; B along w
    - 4 + 3/2: 7/4, 17/8, 37/16. The average is 31/16 (the optimum is 2). c_A = (7/4 - 25/16) + 3/2
    = 27/16, c_B = (7/4 - 37/16) - 3/2 = -33/16, and c is their mean, -3/16.
    """
    hand = Federation(
        tmp_path, settings("scaffold"), linear_model(1.0), [[TOWARDS_0] * 2, [TOWARDS_4] * 2]
    )
    assert hand.run()[0].item() == 7 / 4
    assert [hand.remembered(client, "scaffold.control")[0].item() for client in (0, 1)] == [
        3 / 4,
        -9 / 4,
    ]
    assert hand.strategy.state.control[0].item() == -3 / 4
    assert hand.run()[0].item() == 31 / 16
    assert [hand.remembered(client, "scaffold.control")[0].item() for client in (0, 1)] == [
        27 / 16,
        -33 / 16,
    ]
    assert hand.strategy.state.control[0].item() == -3 / 16


def test_momentum_is_accounted_for(tmp_path: Path) -> None:
    """Loss w^2/2, lr 1/2, momentum 1/2, from w = 1: gradients 1 and 1/2, velocities 1 and 1/2 + 1/2
    = 1, so w = 1, 1/2, 0.

    The gradients weigh 1 + 1/2 and 1, which is a = 5/2, so c_i = 1 / (1/2 . 5/2) = 4/5 = (3/2 . 1 +
    1 . 1/2) / (5/2): a mean of the gradients. K = 2 instead of a would give 1.
    """
    hand = Federation(
        tmp_path, settings("scaffold", momentum=0.5), linear_model(1.0), [[TOWARDS_0] * 2]
    )
    assert hand.run()[0].item() == 0
    assert hand.remembered(0, "scaffold.control")[0].item() == pytest.approx(4 / 5)


def test_the_decayed_learning_rate_counts(tmp_path: Path) -> None:
    """With one step, c_i+ is the gradient at the received model in every round, whatever the
    learning rate of that round."""
    hand = Federation(
        tmp_path, settings("scaffold", lr_decay=0.5), linear_model(1.0), [[TOWARDS_0], [TOWARDS_4]]
    )
    for _ in range(3):
        received = hand.weights[0].item()
        hand.run()
        assert hand.remembered(0, "scaffold.control")[0].item() == pytest.approx(received - 0)
        assert hand.remembered(1, "scaffold.control")[0].item() == pytest.approx(received - 4)


def test_the_servers_control_is_the_mean_of_all_clients_whoever_takes_part(tmp_path: Path) -> None:
    """c = (1/N) sum_i c_i, with zero for clients that never took part.

    This is what |S|/N in the server's step is for.
    """
    clients = [[TOWARDS_0] * 2, [TOWARDS_4] * 2, [TOWARDS_4]]
    hand = Federation(tmp_path, settings("scaffold"), linear_model(1.0), clients)
    for drawn in ([0], [1], [0, 2], [1, 2], [0, 1, 2]):
        hand.run(drawn=drawn)
        own = [hand.remembered(client, "scaffold.control") for client in range(3)]
        mean = sum(0.0 if control is None else control[0].item() for control in own) / 3
        assert hand.strategy.state.control[0].item() == pytest.approx(mean)
        assert mean != 0


def test_it_finds_the_optimum_that_fedavg_misses(tmp_path: Path) -> None:
    """Losses w^2/2 and (2 w - 4)^2/2 have their common optimum where w + 2 (2 w - 4) = 0, at
    8/5."""
    clients = [[([[1.0]], [0.0])] * 5, [([[2.0]], [4.0])] * 5]
    found = {
        methods: (
            Federation(tmp_path / methods, settings(methods, lr=0.1), linear_model(0.0), clients)
            .run(60)[0]
            .item()
        )
        for methods in ("fedavg", "scaffold")
    }
    assert found["scaffold"] == pytest.approx(1.6, abs=1e-3)
    assert abs(found["fedavg"] - 1.6) > 0.1


def test_control_variates_change_and_are_used(tmp_path: Path) -> None:
    run_in_process(tmp_path / "scaffold", **SMALL, methods="scaffold")
    run_in_process(tmp_path / "fedavg", **SMALL)
    control = read_checkpoint(tmp_path / "scaffold" / "checkpoint.safetensors").strategy[
        "scaffold.control"
    ]
    assert all(array.any() for array in control)
    assert [line["train"]["control"] != 0 for line in lines(tmp_path / "scaffold")] == [
        False,
        True,
        True,
    ]
    assert weights(tmp_path / "scaffold")[0].tobytes() != weights(tmp_path / "fedavg")[0].tobytes()


def test_running_statistics_have_no_control(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 2}, model="lenet-bn", methods="scaffold")
    state = read_checkpoint(tmp_path / "checkpoint.safetensors")
    # weights and biases of four layers, of two norms, and two statistics per norm
    assert len(state.shared) == 8 + 4 + 2 * 2
    assert len(state.strategy["scaffold.control"]) == 8 + 4
    assert all(np.isfinite(array).all() for array in state.shared)


def test_a_client_that_cannot_train_changes_nothing(tmp_path: Path) -> None:
    """BatchNorm cannot train on one sample: no step, no control."""
    one = {"model": "lenet-bn", "partition": "classes(per_client=1, samples=1)"}
    run_in_process(tmp_path, **{**SMALL, "rounds": 2}, **one, methods="scaffold")
    assert not any(
        array.any()
        for array in read_checkpoint(tmp_path / "checkpoint.safetensors").strategy[
            "scaffold.control"
        ]
    )


def test_a_warm_start_begins_with_zeros_on_both_sides(tmp_path: Path) -> None:
    """The clients remember control variates of the earlier run, but the new server has none.

    Used together, they would stay wrong for the whole run.
    """
    run_in_process(tmp_path / "start", **{**SMALL, "rounds": 2}, methods="scaffold")
    for methods in ("scaffold", "fedavg"):
        run_in_process(
            tmp_path / methods, **SMALL, methods=methods, warm_start=str(tmp_path / "start")
        )
    assert_same_bits(tmp_path / "scaffold", tmp_path / "fedavg")
    token = read_checkpoint(tmp_path / "scaffold" / "checkpoint.safetensors").token
    kept = Memory(tmp_path / "scaffold" / "memory" / token / "client-00000", 4).get(
        "scaffold.control"
    )
    assert kept is not None
    assert kept[0].any()


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_other_optimisers_are_refused(optimizer: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"scaffold reads gradients off the steps of SGD, but optimizer='{optimizer}'",
    ):
        settings("scaffold", optimizer=optimizer)
