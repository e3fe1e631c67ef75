"""No step of the training loop waits for the device: each wait would stop a GPU's queue.

A wait is reading a tensor as a Python number, asking for positions whose number depends on the
values, or a copy to the CPU, which is also what `.cpu()`, `.tolist()` and `.numpy()` need.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from fedmirage.client import train as loop
from fedmirage.client.methods.fedcg import client as fedcg
from fedmirage.client.methods.fedmd_cg import client as fedmd_cg
from fedmirage.common.methods import METHODS
from fedmirage.testing.simulated_device import DEVICE, simulated_device
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, line

# VHL leaves out a step whose loss is not finite, as if its batch had not been: the optimiser must
# not see it, so that the loop has to know.
PER_STEP = {"vhl": 1}
CLIENTS, ROUNDS, STEPS = BASE["clients"], BASE["rounds"], 3


def count_waits(
    folder: Path, methods: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    """The waits in the loops of all clients, except for the means that are read after the last."""
    inner, read_means = loop.train_phase, loop.TermMeans.values
    found: list[str] = []

    with monkeypatch.context() as patch, simulated_device(patch) as simulation:

        def watched(*args: Any) -> Any:
            before = len(simulation.waits)
            trained = inner(*args)
            found.extend(simulation.waits[before:])
            return trained

        def uncounted(means: loop.TermMeans) -> dict[str, float]:
            before = len(simulation.waits)
            values = read_means(means)
            del simulation.waits[before:]
            return values

        for module in (loop, fedcg, fedmd_cg):
            patch.setattr(module, "train_phase", watched)
        patch.setattr(loop.TermMeans, "values", uncounted)
        settings = {**BASE, "methods": methods, "local_epochs": 0, "local_steps": steps}
        run_in_process(folder, **settings)
    return Counter(found)


@pytest.mark.parametrize("name", METHODS)
def test_a_step_does_not_wait(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = count_waits(tmp_path, line(name), STEPS, monkeypatch)
    assert found.total() == STEPS * CLIENTS * ROUNDS * PER_STEP.get(name, 0), found


def test_every_kind_of_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, simulated_device(patch) as simulation:
        values = torch.arange(3.0).to(DEVICE)
        assert simulation.waits == []
        float(values.sum())
        values.cpu()
        values.tolist()
        torch.empty(3).copy_(values)
        values[values > 1]
        values.nonzero()
    copy = "copy to the CPU"
    assert simulation.waits == [
        *("_local_scalar_dense", copy, copy, copy, "index by a mask", "nonzero"),
    ]
