"""torch's optimisers without torch's compiler.

On their first step, torch's optimisers import its compiler with sympy, which takes 1.6 s in every
process that trains, and over gRPC every message is a process. They need the compiler only to keep
their steps out of compiled code, and there is none here. The steps themselves are torch's own.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from fedmirage.common.wire.manifest import arrays_of, tensors_like
from fedmirage.common.wire.payload import Arrays

for _name in ("add_param_group", "zero_grad"):
    _inner = inspect.unwrap(getattr(Optimizer, _name))
    setattr(_inner, "__dynamo_disable", _inner)


def _bare(kind: type[Optimizer]) -> Any:
    """The step itself, without gradients, as torch runs it."""
    return torch.no_grad()(inspect.unwrap(kind.step))


class SGD(torch.optim.SGD):
    """Stochastic gradient descent."""

    step = _bare(torch.optim.SGD)


class Adam(torch.optim.Adam):
    """Adam."""

    step = _bare(torch.optim.Adam)


class AdamW(torch.optim.AdamW):
    """Adam with decoupled weight decay."""

    step = _bare(torch.optim.AdamW)


def save_state(optimizer: Optimizer) -> list[Arrays]:
    """What an optimiser remembers about each of its parameters; [] about one that never moved."""
    names = _remembered(optimizer)
    states = [optimizer.state.get(weight, {}) for weight in _parameters(optimizer)]
    kept = [[state[name] for name in names if state.get(name) is not None] for state in states]
    return [arrays_of(tensors) for tensors in kept]


def restore_state(optimizer: Optimizer, saved: Sequence[Arrays]) -> None:
    """Continue with what was saved about each parameter; [] leaves one at its beginning.

    Everything else, such as the learning rate, stays as this optimiser was made.
    """
    names = _remembered(optimizer)
    for weight, arrays in zip(_parameters(optimizer), saved, strict=True):
        if arrays:
            # The number of steps is a number, whatever the shape of the parameter.
            like = [weight if array.ndim else weight.new_empty(()) for array in arrays]
            optimizer.state[weight] = dict(zip(names, tensors_like(arrays, like), strict=True))


def save_moments(optimizer: torch.optim.Adam) -> Arrays:
    """What an Adam that has made steps remembers: their number, then m and v of every parameter.

    Before the first step this is empty. All parameters must have had a gradient in every step.
    """
    states = save_state(optimizer)
    if not all(states):
        return []
    steps, first, second = zip(*states, strict=True)
    return [np.array([float(steps[0])]), *first, *second]


def restore_moments(optimizer: torch.optim.Adam, saved: Arrays) -> None:
    """Continue with saved moments; with none, the optimiser stays as it is."""
    if saved:
        steps, *moments = saved
        first, second = moments[: len(moments) // 2], moments[len(moments) // 2 :]
        pairs = zip(first, second, strict=True)
        restore_state(optimizer, [[steps.reshape(()), *pair] for pair in pairs])


def _remembered(optimizer: Optimizer) -> tuple[str, ...]:
    """Name what an optimiser remembers about a parameter from step to step."""
    adaptive = ("step", "exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if isinstance(optimizer, torch.optim.SGD) else adaptive


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]
