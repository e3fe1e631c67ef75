"""Whole runs whose networks compute in bfloat16: what does so, and what stays in 32 bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedmirage.client.methods.fedcog import loss
from fedmirage.client.round import Step
from fedmirage.common import device
from fedmirage.common.learning.task import TASKS, evaluate
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.quick import BASE, finite, line
from tests.support.inprocess import run_in_process
from tests.support.runs import lines, weights

NETWORK = {**BASE, "model": "convnet(width=2, depth=1, norm='batch')"}
FIVE = ("fedcog", "vhl", "dynafed", "fedlgd", "fedmd-cg")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name not in FIVE]


@pytest.mark.parametrize("name", [*FIVE, *SLOW])
def test_methods_run_and_stay_near(name: str, tmp_path: Path) -> None:
    """Weights are sent in 32 bits, whatever they were computed in."""
    for precision in ("float32", "bfloat16"):
        settings = {**NETWORK, "methods": line(name), "precision": precision}
        run_in_process(tmp_path / precision, **settings)
    whole, half = (weights(tmp_path / precision) for precision in ("float32", "bfloat16"))
    assert [array.dtype for array in half] == [array.dtype for array in whole]
    if whole:
        assert finite(half)
        apart = max(np.abs(a - b).max() for a, b in zip(whole, half, strict=True))
        assert 0 < apart < 0.1


def test_networks_compute_in_it_and_losses_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every step, and in every evaluation on the server."""
    seen: set[tuple[str, torch.dtype]] = set()
    forward, linear = Step.forward, nn.functional.linear

    def watched(step: Step) -> None:
        forward(step)
        seen.update({("logits", step.logits.dtype), ("features", step.features.dtype)})

    def watched_linear(*args: Any) -> Tensor:
        result = linear(*args)
        seen.add(("layer", result.dtype))
        return result

    monkeypatch.setattr(Step, "forward", watched)
    monkeypatch.setattr(nn.functional, "linear", watched_linear)
    run_in_process(tmp_path, **{**NETWORK, "rounds": 1}, precision="bfloat16")
    assert seen == {
        ("logits", torch.float32),
        ("features", torch.float32),
        ("layer", torch.bfloat16),
    }


def test_weights_are_read_anew_after_every_step() -> None:
    """Autocast keeps the weights that it has rounded, unless it is told not to."""
    layer, config = nn.Linear(1, 1, bias=False), configure({"precision": "bfloat16"})
    with device.arithmetic(config, torch.device("cpu")):
        for value in (1.0, 2.0):
            with torch.no_grad():
                layer.weight.fill_(value)
            assert layer(torch.ones(1, 1)).item() == value
    with device.arithmetic(configure(), torch.device("cpu")):
        assert layer(torch.ones(1, 1)).dtype == torch.float32


def test_scores_are_added_up_in_32_bits() -> None:
    """The mean of a thousand losses that differ in the third digit."""
    images, labels = torch.linspace(0, 1, 1000)[:, None], torch.zeros(1000, dtype=torch.int64)
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0], [0.0]]))
        model.bias.zero_()
    config = configure({"precision": "bfloat16"})
    with device.arithmetic(config, torch.device("cpu")):
        found = evaluate(model, [(images, labels)], TASKS["single-label"])["loss"]
    exact = evaluate(model, [(images, labels)], TASKS["single-label"])["loss"]
    assert found == pytest.approx(exact, rel=1e-3)
    assert found != exact


def test_fedcog_s_kernels_are_off_and_the_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def called(models: Any) -> None:
        raise AssertionError("kernels of 32 bits")

    monkeypatch.setattr(loss, "side_by_side", called)
    settings = {**NETWORK, "methods": line("fedcog")}
    told = "precision='bfloat16': fedcog runs with fast=False"
    run_in_process(tmp_path / "half", **settings, precision="bfloat16")
    assert told in caplog.text
    assert lines(tmp_path / "half")
    assert not any("fast" in text for text in configure(settings).cautions)
    without = configure({**settings, "methods": line("fedcog")[:-1] + ", fast=False)"})
    assert not any("fast" in text for text in without.cautions)
