"""`fedmirage doctor --gpu`, on the simulated device: what runs, what differs, what fails."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from fedmirage.client.methods.fedprox import FedProxClient
from fedmirage.client.methods.moon import MoonClient
from fedmirage.common.errors import FedmirageError
from fedmirage.show import gpu
from fedmirage.testing.simulated_device import DEVICE, HOST, simulated_device

METHODS = ("fedavg", "fedprox", "moon")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU beside the CPU."""
    with simulated_device(monkeypatch):
        pick = {"cpu": HOST, "auto": DEVICE}.__getitem__
        monkeypatch.setattr("fedmirage.common.device.pick", pick)
        yield


def test_without_a_gpu_it_says_why_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmirage.common.device.pick", lambda name: HOST)
    said: list[str] = []
    gpu.try_gpu(Console(), said.append)
    (why,) = said
    assert why.startswith(f"skipped: no GPU to try: torch {torch.__version__} was built")


@pytest.mark.usefixtures("device")
def test_methods_that_differ_and_that_fail_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedProx gets another weight on the device, MOON mixes tensors of both, FedAvg is sound."""
    fedprox, moon = FedProxClient.terms, MoonClient.terms

    def heavier(self: Any, step: Any) -> dict[str, Tensor]:
        terms, factor = fedprox(self, step), 50 if step.images.device == DEVICE else 1
        return {name: term * factor for name, term in terms.items()}

    def mixed(self: Any, step: Any) -> dict[str, Tensor]:
        return {name: (term * torch.ones(1)).sum() for name, term in moon(self, step).items()}

    monkeypatch.setattr(FedProxClient, "terms", heavier)
    monkeypatch.setattr(MoonClient, "terms", mixed)
    monkeypatch.setattr(gpu, "METHODS", {name: gpu.METHODS[name] for name in METHODS})
    written, said = io.StringIO(), list[str]()
    with pytest.raises(FedmirageError, match=r"2 of 3 methods .*: fedprox, moon; run them with"):
        gpu.try_gpu(Console(file=written, width=200), said.append)
    assert said[0] == "fedavg: as on the CPU"
    assert said[1] == "fedprox: differs from the CPU by more than 0.001"
    assert "got tensors of the device and of the CPU" in said[2]
    assert written.getvalue().count("as on the CPU") == 1


@pytest.mark.usefixtures("device")
def test_what_there_is_no_time_for_is_not_trusted() -> None:
    (trial,) = gpu.try_methods(["fedavg"], limit=-1)
    assert trial.verdict == "not tried: -1 s are over"
    assert not trial.passed


@pytest.mark.usefixtures("device")
def test_all_is_well_if_all_methods_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "METHODS", {"swa": gpu.METHODS["swa"]})
    said: list[str] = []
    gpu.try_gpu(Console(file=io.StringIO()), said.append)
    assert said == [
        "swa: as on the CPU",
        f"all 1 methods compute on {DEVICE} what they do on the CPU",
    ]


def test_a_number_that_is_none_is_infinitely_far() -> None:
    one = [torch.ones(2).numpy()]
    assert gpu.compare(one, one) == 0
    assert gpu.compare([one[0] * float("nan")], one) == float("inf")
