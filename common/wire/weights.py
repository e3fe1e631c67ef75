"""Turns modules into arrays and back, with strict checks, and writes them to files.

The manifest determines which tensors of a module are converted, and in which order.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from torch import Tensor, nn

from common.errors import DataError
from common.wire.manifest import Manifest, floating
from common.wire.payload import Array


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


def save(
    content: nn.Module | Mapping[str, Array],
    path: str | Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a module, or named arrays, as a safetensors file; a partial file is never visible."""
    named = (
        Manifest.of(content).name(to_arrays(content)) if isinstance(content, nn.Module) else content
    )
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        contiguous = {name: np.asarray(array, order="C") for name, array in named.items()}
        # save_file would let nobody but the owner read the file, whatever the umask says.
        partial.write_bytes(to_bytes(contiguous, dict(metadata or {})))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Read the arrays of a safetensors file by name, in the order of the file, and its metadata."""
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
