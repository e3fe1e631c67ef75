"""Turns modules into arrays and back, with strict checks.

The manifest determines which tensors of a module are converted, and in which order.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedmirage.common.wire.manifest import Manifest, floating
from fedmirage.common.wire.payload import Array


def to_arrays(module: nn.Module) -> list[Array]:
    """Copy all entries of a module into contiguous arrays, whatever its memory format."""
    return arrays_of([tensor for _, tensor in floating(module)])


@torch.no_grad()
def from_arrays(module: nn.Module, arrays: Sequence[Array]) -> None:
    """Copy arrays into a module's own tensors; a WireError leaves the module unchanged."""
    Manifest.of(module).check(arrays)
    for (_, tensor), array in zip(floating(module), arrays, strict=True):
        # Arrays from a message or a file may be read-only, so torch.tensor copies them first.
        tensor.copy_(torch.tensor(array))


def tensors_like(arrays: Sequence[Array], like: Sequence[Tensor]) -> list[Tensor]:
    """Convert arrays to tensors, each with the device and the memory format of its counterpart."""
    return [
        torch.empty_like(counterpart).copy_(torch.tensor(array))
        for array, counterpart in zip(arrays, like, strict=True)
    ]


def arrays_of(tensors: Sequence[Tensor]) -> list[Array]:
    """Copy tensors into contiguous arrays, whatever their memory format."""
    return [np.array(tensor.detach().cpu().numpy(), order="C") for tensor in tensors]
