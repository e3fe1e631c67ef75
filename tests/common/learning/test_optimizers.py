"""The optimisers step as torch's own do, and load no compiler."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from fedmirage.common.learning import optimizers
from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.settings.project import ROOT


def walk(kind: type[torch.optim.Optimizer], **settings: Any) -> list[bytes]:
    """The weights after a few steps on a small problem."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(7, 3, generator=generator, requires_grad=True)
    optimizer = kind([weight], **settings)
    for _ in range(5):
        inputs = torch.randn(4, 7, generator=generator)
        optimizer.zero_grad(set_to_none=True)
        (inputs @ weight).square().sum().backward()
        optimizer.step()
    return [weight.detach().numpy().tobytes()]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_the_same_bits_as_torchs_own(name: str) -> None:
    settings: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1, "fused": True}
    settings |= {"momentum": 0.9} if name == "SGD" else {}
    assert walk(getattr(optimizers, name), **settings) == walk(
        getattr(torch.optim, name), **settings
    )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_no_compiler_is_loaded(name: str) -> None:
    code = f"""
import sys, torch
from fedmirage.common.learning.optimizers import {name}
weight = torch.zeros(2, requires_grad=True)
optimizer = {name}([weight], lr=0.1, fused=True)
weight.sum().backward()
optimizer.step()
optimizer.zero_grad()
sys.exit("torch._dynamo" in sys.modules or "sympy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_an_adam_goes_on_where_its_moments_were_saved() -> None:
    """Four steps at once, and two steps, saved, restored into a new Adam, and two more."""
    targets = [torch.full((2, 3), value) for value in (1.0, -2.0, 3.0, 0.5)]

    def steps(weight: torch.Tensor, optimizer: Adam, given: list[torch.Tensor]) -> None:
        for target in given:
            optimizer.zero_grad()
            (weight - target).square().sum().backward()
            optimizer.step()

    whole, cut = (torch.zeros(2, 3, requires_grad=True) for _ in range(2))
    steps(whole, Adam([whole], lr=0.1, weight_decay=0.01, fused=True), targets)
    first = Adam([cut], lr=0.1, weight_decay=0.01, fused=True)
    assert save_moments(first) == []
    steps(cut, first, targets[:2])
    second = Adam([cut], lr=0.1, weight_decay=0.01, fused=True)
    restore_moments(second, save_moments(first))
    steps(cut, second, targets[2:])
    assert torch.equal(whole, cut)
