"""The one place that turns a module into arrays and back, strictly, and writes them to files.

Which of a module's tensors travel, and in which order, is the manifest's business.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from common.errors import DataError, WireError
from common.wire.manifest import Manifest, floating
from common.wire.payload import Array


def to_arrays(module: nn.Module) -> list[Array]:
    """Copies of all entries, contiguous whatever the module's memory format; further training does
    not change them."""
    return arrays_of([tensor for _, tensor in floating(module)])


@torch.no_grad()
def from_arrays(module: nn.Module, arrays: Sequence[Array]) -> None:
    """Copy arrays into the module's own tensors, or raise a WireError and leave the module as it
    was."""
    Manifest.of(module).check(arrays)
    for (_, tensor), array in zip(floating(module), arrays, strict=True):
        # A copy first, because arrays from the wire or a file may be read-only.
        tensor.copy_(torch.tensor(array))


def tensors_like(arrays: Sequence[Array], like: Sequence[Tensor]) -> list[Tensor]:
    """Arrays as tensors, each on the device and in the memory format of its counterpart."""
    return [
        torch.empty_like(model).copy_(torch.tensor(array))
        for array, model in zip(arrays, like, strict=True)
    ]


def arrays_of(tensors: Sequence[Tensor]) -> list[Array]:
    """Copies of tensors as arrays, contiguous whatever their memory format."""
    return [np.array(tensor.detach().cpu().numpy(), order="C") for tensor in tensors]


def save(
    content: nn.Module | Mapping[str, Array],
    path: str | Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a module, or arrays by name, as a safetensors file that is either whole or not
    there."""
    named = (
        Manifest.of(content).name(to_arrays(content)) if isinstance(content, nn.Module) else content
    )
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        save_file(
            {name: np.asarray(array, order="C") for name, array in named.items()},
            partial,
            dict(metadata or {}),
        )
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a safetensors file by name, in the order of the file, and its metadata."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return arrays, dict(file.metadata() or {})
    except FileNotFoundError:
        raise DataError(
            f"weights: there is no file {str(path)!r}; check the path, or train a model first"
        ) from None
    except (SafetensorError, OSError) as error:
        raise DataError(
            f"weights: {str(path)!r} is not a readable safetensors file ({error}); write it again"
        ) from None


def load_into(module: nn.Module, path: str | Path) -> dict[str, str]:
    """Load a file that `save` wrote for such a module, by name; returns its metadata."""
    named, metadata = load(path)
    expected = Manifest.of(module).names
    if missing := [name for name in expected if name not in named]:
        raise WireError(
            f"weights: {str(path)!r} lacks the entry {missing[0]!r} (and {len(missing) - 1} more);"
            " it is of another model"
        )
    if surplus := sorted(set(named) - set(expected)):
        raise WireError(
            f"weights: {str(path)!r} has the entry {surplus[0]!r}, which the model lacks; it is of"
            " another model"
        )
    from_arrays(module, [named[name] for name in expected])
    return metadata
