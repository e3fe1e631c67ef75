"""MOON: the limit, the first visit, a round by hand, and which model counts as the previous one."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedmirage.client.methods.moon import MoonClient
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.models.base import Model
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from tests.support.hand import open_round, settings, visit
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits, lines, weights


def test_without_weight_it_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    """With BatchNorm, too: the two reference models leave the running statistics alone."""
    run_in_process(tmp_path / "fedavg", **SMALL, model="lenet-bn")
    run_in_process(tmp_path / "moon", **SMALL, model="lenet-bn", methods="moon(mu=0)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "moon")


def test_a_first_visit_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    """The received model takes the role of the previous one: the term is constant, log 2."""
    run_in_process(tmp_path / "fedavg", **{**SMALL, "rounds": 2})
    run_in_process(
        tmp_path / "moon", **{**SMALL, "rounds": 2}, methods="moon(mu=5)", keep_models="all"
    )
    first, second = lines(tmp_path / "moon")
    assert first["train"]["contrast"] == pytest.approx(5 * math.log(2))
    assert first["loss"] == lines(tmp_path / "fedavg")[0]["loss"]
    assert second["train"]["contrast"] != pytest.approx(5 * math.log(2))
    assert weights(tmp_path / "moon")[0].tobytes() != weights(tmp_path / "fedavg")[0].tobytes()


def two_features(*values: float) -> Model:
    """z = (a, b) x, and an output that is always 0."""
    model = Model(nn.Sequential(nn.Linear(1, 2, bias=False)), nn.Linear(2, 1, bias=False), 2)
    from_arrays(model, [np.array(values, np.float32).reshape(2, 1), np.zeros((1, 2), np.float32)])
    return model


def remember(folder: Path, round_number: int, model: Model) -> None:
    memory = Memory(folder, round_number)
    memory.put(LOCAL_MODEL, to_arrays(model))
    memory.close()


def test_a_round_by_hand(tmp_path: Path) -> None:
    """One sample x = 1, T = 1, mu = 1, lr 1/2; the task has no gradient, since the output is 0 and
    so is the target.

    Received: z_g = (1, 0), which is where training starts. Previous: z_p = (0, 1). So cos(z, z_g) =
    1 and cos(z, z_p) = 0, and the term is -log(e / (e + 1)) = log(1 + e^-1). Its gradient is s (I -
    z z^T) (z_p - z_g) = s (0, 1) with s = 1 / (1 + e) = 0.268941, so that z moves to (1, -s/2):
    away from the previous features.
    """
    remember(tmp_path, 1, two_features(0.0, 1.0))
    model = two_features(1.0, 0.0)
    terms, _ = visit(
        open_round(
            model, [([[1.0]], [0.0])], settings("moon(mu=1, temperature=1)"), Memory(tmp_path, 2)
        )
    )
    assert terms["contrast"] == pytest.approx(math.log(1 + math.exp(-1)))
    moved = -0.5 / (1 + math.e)
    np.testing.assert_allclose(to_arrays(model)[0].ravel(), [1.0, moved], rtol=1e-6)


def test_the_previous_model_is_that_of_the_last_visit_whenever_it_was(tmp_path: Path) -> None:
    remember(tmp_path, 3, two_features(0.0, 1.0))
    half = MoonClient(settings("moon").method_list[0])  # type: ignore[arg-type]
    half.begin(open_round(two_features(1.0, 0.0), [], settings("moon"), Memory(tmp_path, 9)))
    assert to_arrays(half.previous)[0].ravel().tolist() == [0.0, 1.0]
    assert to_arrays(half.received)[0].ravel().tolist() == [1.0, 0.0]


def test_the_references_do_not_move_with_training(tmp_path: Path) -> None:
    model = two_features(1.0, 0.0)
    half = MoonClient(settings("moon").method_list[0])  # type: ignore[arg-type]
    half.begin(open_round(model, [], settings("moon"), Memory(tmp_path, 1)))
    with torch.no_grad():
        model.features[0].weight.add_(1)
    assert to_arrays(half.received)[0].ravel().tolist() == [1.0, 0.0]
    assert not half.received.training
    assert not any(weight.requires_grad for weight in half.received.parameters())


def test_a_warm_start_has_the_previous_models_of_a_run_that_kept_them(tmp_path: Path) -> None:
    """FedCOG's paper turns methods on after a warm-up with FedAvg: the local models of that run are
    the previous ones. A run of FedAvg keeps them on request, because nothing in it reads them."""
    two = {**SMALL, "rounds": 2}
    moon = {**SMALL, "methods": "moon(mu=1)"}
    run_in_process(tmp_path / "lost", **two)
    with pytest.raises(ConfigurationError, match=r"did not keep; run it again with keep-models"):
        run_in_process(tmp_path / "refused", **moon, warm_start=str(tmp_path / "lost"))
    run_in_process(tmp_path / "fedavg", **two, keep_models="all")
    run_in_process(tmp_path / "moon", **moon, warm_start=str(tmp_path / "fedavg"))
    (line,) = lines(tmp_path / "moon")
    assert line["train"]["contrast"] != pytest.approx(math.log(2), abs=1e-6)
