"""Modules to arrays and back: nothing is lost or aliased, and what does not fit is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedmirage.common.errors import WireError
from fedmirage.common.models.factory import build
from fedmirage.common.wire import manifest
from fedmirage.common.wire.manifest import Manifest


@pytest.fixture
def model() -> nn.Module:
    """A network with parameters, floating buffers and integer counters, all of them changed."""
    module = build("lenet-bn", (3, 28, 28), 4, seed=1)
    with torch.no_grad():
        for _ in range(3):
            module(torch.randn(5, 3, 28, 28, generator=torch.Generator().manual_seed(0)))
    return module


def test_entries_are_floating_parameters_and_buffers_in_order(model: nn.Module) -> None:
    manifest = Manifest.of(model)
    assert list(manifest.names) == [
        name for name in model.state_dict() if "num_batches_tracked" not in name
    ]
    mask = {entry.name: entry.trainable for entry in manifest}
    assert sum(mask.values()) == len(list(model.parameters()))
    assert mask["features.stage1.norm.weight"] is True
    assert mask["features.stage1.norm.running_var"] is False


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_round_trip_is_exact_and_keeps_memory_format_and_counters(
    model: nn.Module, memory_format: torch.memory_format
) -> None:
    other: nn.Module = build("lenet-bn", (3, 28, 28), 4, seed=2).to(memory_format=memory_format)
    before = {
        name: (tensor.data_ptr(), tensor.stride()) for name, tensor in other.state_dict().items()
    }
    manifest.from_arrays(other, manifest.to_arrays(model))
    assert {
        name: (tensor.data_ptr(), tensor.stride()) for name, tensor in other.state_dict().items()
    } == before
    for name, tensor in other.state_dict().items():
        expected = torch.tensor(0) if "num_batches" in name else model.state_dict()[name]
        assert torch.equal(tensor, expected)
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_arrays_are_contiguous_copies_that_training_does_not_change(model: nn.Module) -> None:
    for module in (model, build("lenet-bn", (3, 28, 28), 4).to(memory_format=torch.channels_last)):
        arrays = manifest.to_arrays(module)
        kept = [array.copy() for array in arrays]
        assert all(
            array.flags.c_contiguous and array.flags.owndata and array.flags.writeable
            for array in arrays
        )
        with torch.no_grad():
            for tensor in module.state_dict().values():
                tensor.add_(1)
        assert all(np.array_equal(array, copy) for array, copy in zip(arrays, kept, strict=True))


def test_loaded_arrays_are_not_aliased_and_may_be_read_only(
    model: nn.Module, recwarn: pytest.WarningsRecorder
) -> None:
    arrays = manifest.to_arrays(model)
    for array in arrays:
        array.flags.writeable = False
    kept = [array.copy() for array in arrays]
    manifest.from_arrays(model, arrays)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, kept, strict=True))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda arrays: arrays[:-1], "15 arrays arrived, but the model has 16 entries"),
        (
            lambda arrays: [*arrays[:-1], arrays[-1][:2]],
            r"'classifier.output.bias' has shape \(2,\).*\(4,\)",
        ),
        (
            lambda arrays: [*arrays[:-1], arrays[-1].astype(np.float64)],
            "'classifier.output.bias' is float64.*float32",
        ),
        (
            lambda arrays: [*arrays[:-1], arrays[-1] * np.nan],
            "'classifier.output.bias' holds 4 values that are not finite",
        ),
        (lambda arrays: [*arrays[:-1], arrays[-1].tolist()], "'classifier.output.bias' is a list"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    model: nn.Module, damage: Any, sentence: str
) -> None:
    before = manifest.to_arrays(model)
    arrays = damage([array + 1 for array in before])
    with pytest.raises(WireError, match=sentence):
        manifest.from_arrays(model, arrays)
    assert all(np.array_equal(a, b) for a, b in zip(before, manifest.to_arrays(model), strict=True))
