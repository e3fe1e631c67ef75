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
from common.methods import METHODS
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, line

# VHL leaves out a step whose loss is not finite, as if its batch had not been: the optimiser must
# not see it, so that the loop has to know.
PER_STEP = {"vhl": 1}
CLIENTS, ROUNDS = BASE["clients"], BASE["rounds"]
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
    """The waits inside the loops of one round of all clients with so many steps each."""
    waits, inner = Waits(), client.train.train_phase

    def watched(*args: Any) -> Any:
        with waits:
            return inner(*args)

    with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
        patch.setattr(client.train, "train_phase", watched)
        settings = {**BASE, "methods": methods, "local_epochs": 0, "local_steps": steps}
        run_in_process(Path(folder), **settings)
    return waits.found


@pytest.mark.parametrize("name", METHODS)
def test_more_steps_need_no_more_waits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (count_waits(line(name), steps, monkeypatch) for steps in (2, 5))
    assert few, "the means of the terms are read once per round, so the count cannot be empty"
    assert many.total() - few.total() == (5 - 2) * CLIENTS * ROUNDS * PER_STEP.get(name, 0)
