"""Where a process computes, and what makes its numbers repeatable there."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fedmirage.common.cores import cores
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import RunConfig

__all__ = ["arithmetic", "cores", "memory_format", "pick", "place", "prepare"]

M = TypeVar("M", bound=nn.Module)


def pick(name: str) -> torch.device:
    """Find the named device, or refuse; `auto` is the first CUDA device if any, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # A simulated client sees only the GPU that Ray has assigned to it.
    if name.startswith("cuda:") and "RAY_JOB_ID" in os.environ:
        name = "cuda"
    device = torch.device(name)
    if device.type == "cuda" and (
        not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()
    ):
        raise ConfigurationError(
            f"device={name!r}: torch sees {torch.cuda.device_count()} CUDA devices; write cpu"
            " or auto"
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigurationError("device='mps': torch sees no such device; write cpu or auto")
    return device


def prepare(config: RunConfig, threads: int) -> torch.device:
    """Set this process up for a run: threads, deterministic kernels, device."""
    device = pick(config.device)
    torch.set_num_threads(threads)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    # Some CUDA kernels have no deterministic counterpart (adaptive pooling backwards), so they only
    # warn. On the CPU there are none, so it is an error. The debug mode is the same switch as
    # use_deterministic_algorithms, which would import the compiler: 1.4 s per process.
    torch.set_deterministic_debug_mode(
        ("error" if device.type == "cpu" else "warn") if config.deterministic else "default"
    )
    # Filling new tensors would cost a pass over each of them.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return device


def arithmetic(config: RunConfig, device: torch.device) -> AbstractContextManager[Any]:
    """Let networks compute in the run's `precision` in this block.

    Weights change within a block, so what autocast has made of them is not kept.
    """
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def place(model: M, device: torch.device, config: RunConfig) -> M:
    """Move a model to its device, in the configured memory format.

    In bfloat16, GroupNorm computes in 32 bits, as torch has it on CUDA: on a CPU it is several
    times as fast that way.
    """
    if config.precision == "bfloat16":
        for layer in model.modules():
            if isinstance(layer, nn.GroupNorm):
                layer.register_forward_pre_hook(_widen)
    return model.to(device, memory_format=memory_format(config))  # type: ignore[call-overload,no-any-return]


def _widen(layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(in_32_bits(value) for value in inputs)


def in_32_bits(value: Tensor) -> Tensor:
    """Return what a network has computed in bfloat16 as 32-bit floats, and all else as it is."""
    return value.float() if value.dtype == torch.bfloat16 else value


def memory_format(config: RunConfig) -> torch.memory_format:
    """The configured memory format of image tensors."""
    return (
        torch.channels_last if config.memory_format == "channels_last" else torch.contiguous_format
    )
