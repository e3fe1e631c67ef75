"""A device that is not the CPU, for machines without a GPU.

Its tensors hold tensors of the CPU, which compute. As on a GPU, an operation refuses to mix them
with tensors of the CPU, and values reach the host only through calls that a test can count.
"""

# Torch has no types for what is overridden here.
# mypy: disable-error-code="override, assignment, no-untyped-call"

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


def register() -> torch.device | None:
    """Make the device known to torch; None if this release cannot have one."""
    try:
        from torch.utils.backend_registration import (
            _DummyBackendModule,
            _setup_privateuseone_for_python_backend,
        )
    except ImportError:  # torch 2.8
        return None

    class Backend(_DummyBackendModule):
        """What torch asks about the device; other tests of the process must not find one."""

        def device_count(self) -> int:
            """Say that there is none, so that nobody saves the state of its generators."""
            return 0

    _setup_privateuseone_for_python_backend("simulated", backend_module=Backend())
    return torch.device("simulated", 0)


# Torch asks for devices when it first computes a gradient, so this must be imported before that.
REGISTERED, HOST = register(), torch.device("cpu")
DEVICE = REGISTERED or HOST  # nothing is computed where there is none: the tests are skipped
# These take tensors of both devices: copies, and indices, which CUDA accepts from the host.
MAY_MIX = {"copy_", "_to_copy", "_copy_from", "index", "index_put", "index_put_"}


class DeviceTensor(Tensor):
    """A tensor of the simulated device."""

    held: Tensor

    @staticmethod
    def __new__(cls: Any, held: Tensor) -> "DeviceTensor":
        made: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl

    def tolist(self) -> Any:
        """Copy to the CPU first, as torch does for a GPU, but not for this class."""
        return self.cpu().tolist()


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the held tensors; its results belong to the device that it works on."""
    name = func.overloadpacket.__name__
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    here = any(isinstance(tensor, DeviceTensor) for tensor in tensors)
    strangers = [tensor for tensor in tensors if tensor.ndim and tensor.device == HOST]
    if here and strangers and name not in MAY_MIX:
        raise RuntimeError(f"{name} got tensors of the device and of the CPU")
    target = kwargs.get("device") or (DEVICE if here else HOST)
    generator = kwargs.get("generator")
    if target.type == DEVICE.type and generator is not None and generator.device == HOST:
        raise RuntimeError(f"{name} draws on the device, but its generator is on the CPU")
    operands, options = tree_map_only(DeviceTensor, lambda tensor: tensor.held, (args, kwargs))
    result = func(*operands, **(options | ({"device": HOST} if "device" in options else {})))
    if target.type != DEVICE.type or result is None:
        return result
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    return kwargs["out"] if "out" in kwargs else tree_map_only(Tensor, DeviceTensor, result)


class Simulation(TorchDispatchMode):
    """Makes tensors on the device, and counts how often the host waits for one of its values."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if wait := find_wait(func.overloadpacket.__name__, args, named):
            self.waits.append(wait)
        return compute(func, args, named)


# Their results have a size, or are a number, that depends on values.
READS = {"_local_scalar_dense", "nonzero", "masked_select", "unique_dim", "_unique2", "equal"}


def find_wait(name: str, args: Any, kwargs: dict[str, Any]) -> str:
    """Say why the host has to wait for the device; empty if it has not."""
    if not any(isinstance(leaf, DeviceTensor) for leaf in tree_leaves((args, kwargs))):
        return ""
    to_host = name == "_to_copy" and kwargs.get("device") == HOST
    to_host |= name == "copy_" and args[0].device == HOST
    if to_host:
        return "copy to the CPU"
    if name in {"index", "index_put", "index_put_"}:
        masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
        return "index by a mask" if masks else ""
    return name if name in READS else ""


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    to, values = (
        tensor.held if isinstance(tensor, DeviceTensor) else tensor for tensor in (target, source)
    )
    to.copy_(values)
    return target


def _empty_strided(size: Any, stride: Any, dtype: Any = None, **_: Any) -> Tensor:
    return DeviceTensor(torch.empty_strided(size, stride, dtype=dtype))


# torch.tensor(..., device=...) calls these kernels without asking the mode.
_kernels = torch.library.Library("aten", "IMPL")
_kernels.impl("empty_strided", _empty_strided, "PrivateUse1")
_kernels.impl("_copy_from", _copy_from, "PrivateUse1")


@contextmanager
def simulated_device(patch: Any) -> Iterator[Simulation]:
    """Let every part of a run compute on the simulated device; the test is skipped without one."""
    if REGISTERED is None:
        pytest.skip(f"torch {torch.__version__} cannot have a simulated device; a newer one can")
    patch.setattr("fedmirage.common.device.pick", lambda name: DEVICE)
    # torch cannot make views of tensors of a class like ours in inference mode.
    patch.setattr(torch, "inference_mode", torch.no_grad)
    with Simulation() as simulation:
        yield simulation
