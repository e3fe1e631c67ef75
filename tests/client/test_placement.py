"""Whole runs on a device that is not the CPU: nothing is left behind on the CPU.

The simulated device refuses, as a GPU does, to mix its tensors with those of the CPU. Clients,
server halves and evaluation of every method run on it, and the results are those of the CPU. It
says nothing about the kernels and the numbers of a real GPU.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedmirage.common.methods import METHODS
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, line
from tests.support.runs import weights
from tests.support.simulated_device import DEVICE, simulated_device


@pytest.mark.parametrize("name", METHODS)
def test_a_run_stays_on_its_device(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**BASE, "methods": line(name)}
    run_in_process(tmp_path / "cpu", **settings)
    with monkeypatch.context() as patch, simulated_device(patch) as simulation:
        run_in_process(tmp_path / "device", **settings)
    assert simulation.waits  # at least the trained weights are copied to the CPU
    for found, expected in zip(
        weights(tmp_path / "device"), weights(tmp_path / "cpu"), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_the_device_refuses_tensors_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, simulated_device(patch):
        here, there = torch.ones(2, 2, device=DEVICE), torch.ones(2, 2)
        with pytest.raises(RuntimeError, match="add got tensors of the device and of the CPU"):
            here + there
        with pytest.raises(RuntimeError, match="index_select got tensors"):
            here.index_select(0, torch.tensor([1]))
        with pytest.raises(RuntimeError, match="its generator is on the CPU"):
            torch.randn(2, device=DEVICE, generator=torch.Generator())
        assert (here + there.to(DEVICE) * torch.tensor(2.0)).cpu().tolist() == [[3, 3], [3, 3]]
