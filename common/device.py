"""Where a process computes, and what makes its numbers repeatable there."""

import os
from typing import TypeVar

import torch
from torch import nn

from common.errors import ConfigurationError
from common.settings.config import RunConfig

M = TypeVar("M", bound=nn.Module)


def pick(name: str) -> torch.device:
    """`auto` is the first CUDA device where there is one, else the CPU; a device that is not there
    is refused."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if (
        name.startswith("cuda:") and "RAY_JOB_ID" in os.environ
    ):  # a simulated client sees the one GPU that Ray gave it
        name = "cuda"
    device = torch.device(name)
    if device.type == "cuda" and (
        not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()
    ):
        raise ConfigurationError(
            [
                f"device={name!r}: torch sees {torch.cuda.device_count()} CUDA devices; write cpu"
                " or auto"
            ]
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigurationError(["device='mps': torch sees no such device; write cpu or auto"])
    return device


def prepare(config: RunConfig, threads: int) -> torch.device:
    """Set this process up for a run: threads, deterministic kernels, device."""
    device = pick(config.device)
    torch.set_num_threads(threads)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    # Some CUDA kernels have no deterministic twin (adaptive pooling backwards): they warn there,
    # and never run on the CPU. The debug mode is the same switch as use_deterministic_algorithms,
    # which would import the compiler: 1.4 s a process.
    torch.set_deterministic_debug_mode(
        ("error" if device.type == "cpu" else "warn") if config.deterministic else "default"
    )
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # costs a pass over new tensors
    return device


def place(model: M, device: torch.device, config: RunConfig) -> M:
    """A model on its device, in the configured memory format."""
    return model.to(device, memory_format=memory_format(config))  # type: ignore[call-overload,no-any-return]


def cores() -> int:
    """The cores that this process may use, which in a container can be fewer than the machine
    has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_format(config: RunConfig) -> torch.memory_format:
    """The configured layout of image tensors."""
    return (
        torch.channels_last if config.memory_format == "channels_last" else torch.contiguous_format
    )
