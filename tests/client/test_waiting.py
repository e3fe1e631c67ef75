"""No step of the training loop waits for the device: each wait would stop a GPU's queue.

On the CPU a wait costs nothing, but it shows as the same call: reading a tensor as a Python number,
or asking for positions whose number depends on the values.
"""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

import client.train
from client.methods.fedcg import adversary
from client.methods.fedmd_cg import generator
from common.methods import METHODS
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, line

# VHL leaves out a step whose loss is not finite, as if its batch had not been: the optimiser must
# not see it, so that the loop has to know.
PER_STEP = {"vhl": 1}
CLIENTS, ROUNDS, STEPS = BASE["clients"], BASE["rounds"], 3
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "unique_dim", "_unique2", "equal"}


class Waits(TorchDispatchMode):
    """Counts the calls that need a value of the device on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in WAITS:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def count_waits(methods: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The waits in the loops of all clients, except for the means that are read after the last."""
    waits, inner, read_means = Waits(), client.train.train_phase, client.train.TermMeans.values

    def watched(*args: Any) -> Any:
        with waits:
            return inner(*args)

    def uncounted(means: client.train.TermMeans) -> dict[str, float]:
        before = waits.found.copy()
        values = read_means(means)
        waits.found = before
        return values

    with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
        for module in (client.train, adversary, generator):
            patch.setattr(module, "train_phase", watched)
        patch.setattr(client.train.TermMeans, "values", uncounted)
        settings = {**BASE, "methods": methods, "local_epochs": 0, "local_steps": steps}
        run_in_process(Path(folder), **settings)
    return waits.found


@pytest.mark.parametrize("name", METHODS)
def test_a_step_does_not_wait(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = count_waits(line(name), STEPS, monkeypatch)
    assert found.total() == STEPS * CLIENTS * ROUNDS * PER_STEP.get(name, 0)
