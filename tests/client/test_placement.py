"""Whole runs on a device that is not the CPU: nothing is left behind on the CPU.

Clients, server halves and evaluation of every method run on the simulated device.
"""

from pathlib import Path

import pytest
import torch

from fedmirage.common.methods import METHODS
from fedmirage.testing.checks import check_device
from fedmirage.testing.simulated_device import DEVICE, simulated_device


@pytest.mark.parametrize("name", METHODS)
def test_a_run_stays_on_its_device(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_device(name, tmp_path, monkeypatch)


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
