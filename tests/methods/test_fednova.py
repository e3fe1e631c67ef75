"""FedNova: FedAvg where all make the same steps, a round by hand, unequal steps against brute
force, BatchNorm, refusals."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.client.methods.fednova import FedNovaClient
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.memory import Memory
from fedmirage.common.methods.fednova import FedNova
from fedmirage.common.settings.config import configure
from tests.support.inprocess import run_in_process
from tests.support.rules import buffers, initial, last_local_models, one_round, reply, rule
from tests.support.runs import SMALL, lines, weights


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_equal_steps_it_is_fedavg(tmp_path: Path, momentum: float) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, momentum=momentum)
    run_in_process(tmp_path / "fednova", **SMALL, momentum=momentum, methods="fednova")
    for one, other in zip(weights(tmp_path / "fedavg"), weights(tmp_path / "fednova"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)


def test_one_round_by_hand() -> None:
    """Client 1 (3 examples) makes 2 steps from w = 10 to 14, client 2 (1 example) 6 steps to 4.

    Without momentum, a = 2 and 6.
    d = 4 / 2 = 2 and -6 / 6 = -1; sum p a = (3 * 2 + 6) / 4 = 3, sum p d = (3 * 2 - 1) / 4 = 1.25,
    w = 10 + 3.75 = 13.75. FedAvg gives (3 * 14 + 4) / 4 = 11.5. A running statistic that the
    clients send as 1 and 5 becomes (3 + 5) / 4 = 2.
    """
    strategy = rule("fednova", 1, 1, trainable=(True, False))
    replies = (
        reply([2], [1], examples=3, effective_steps=2.0),
        reply([-1], [5], examples=1, effective_steps=6.0),
    )
    assert one_round(strategy, [[10], [0]], *replies) == [[13.75], [2]]


def test_what_a_client_sends_by_hand(tmp_path: Path) -> None:
    """y = w x, loss (y - t)^2 / 2, lr 0.5, momentum 0.5, two batches x = 1, t = 4 from w = 0.

    Step 1: gradient -4, buffer -4, w = 2. Step 2: gradient -2, buffer -2 - 2 = -4, w = 4. a = (1 +
    0.5) + 1 = 2.5 (the first gradient counts once and by half again), so d = (4 - 0) / 2.5 = 1.6.
    """
    from tests.support.hand import linear_model, open_round, settings, visit

    batch = ([[1.0]], [4.0])
    local = open_round(
        linear_model(0.0), [batch, batch], settings("fednova", momentum=0.5), Memory(tmp_path, 1)
    )
    _, sections = visit(local)
    assert sections["effective_steps"][0].tolist() == [2.5]
    assert local.model.classifier.weight.item() == 4
    sent = FedNovaClient(FedNova()).share(local, {"classifier.weight": np.array([[4]], np.float32)})
    assert sent["classifier.weight"].item() == pytest.approx(1.6)
    assert sent["classifier.weight"].dtype == np.float32


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_unequal_steps_against_brute_force(tmp_path: Path, momentum: float) -> None:
    """Epochs over unequal parts: w + (sum p a) (sum p (w_i - w) / a_i) from the models that the
    clients ended with."""
    settings = {
        **SMALL,
        "rounds": 1,
        "partition": "dirichlet(alpha=0.3)",
        "model": "lenet-bn",
        "momentum": momentum,
        "keep_models": "all",
    }
    del settings["local_steps"]
    config = run_in_process(tmp_path, **settings, local_epochs=2, methods="fednova")
    steps = [client["steps"] for client in lines(tmp_path)[0]["clients"]]
    assert len(set(steps)) > 1
    each = [sum((1 - momentum ** (k + 1)) / (1 - momentum) for k in range(t)) for t in steps]
    start, (models, shares) = initial(config), last_local_models(tmp_path)
    effective = sum(p * a for p, a in zip(shares, each, strict=True))
    assert lines(tmp_path)[0]["methods"]["fednova.effective_steps"] == pytest.approx(effective)
    for position, found in enumerate(weights(tmp_path)):
        theirs = [model[position].astype(np.float64) for model in models]
        if position in buffers(config):
            expected = sum(p * array for p, array in zip(shares, theirs, strict=True))
        else:
            mean = sum(
                p * (array - start[position]) / a
                for p, a, array in zip(shares, each, theirs, strict=True)
            )
            expected = start[position] + effective * mean
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


def test_the_reference_is_what_was_broadcast() -> None:
    strategy = rule("fednova", 1)
    one_round(strategy, [[10]], reply([2], effective_steps=2.0))
    assert one_round(strategy, [[100]], reply([2], effective_steps=2.0)) == [[104]]


def test_a_client_that_cannot_train_weighs_nothing(tmp_path: Path) -> None:
    settings = {
        **SMALL,
        "rounds": 2,
        "model": "lenet-bn",
        "partition": "classes(per_client=1, samples=1)",
    }
    run_in_process(tmp_path, **settings, methods="fednova")
    assert [client["steps"] for client in lines(tmp_path)[-1]["clients"]] == [0, 0, 0, 0]
    assert effective_steps(0, 0.9) == 0


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_other_optimisers_are_refused(optimizer: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"fednova counts the steps of SGD, but optimizer='{optimizer}'"
    ):
        configure({"methods": "fednova", "optimizer": optimizer})
