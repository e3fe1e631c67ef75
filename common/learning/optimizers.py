"""torch's optimisers without torch's compiler.

On their first step, torch's optimisers import its compiler with sympy, which takes 1.6 s in every
process that trains, and over gRPC every message is a process. They need the compiler only to keep
their steps out of compiled code, and there is none here. The steps themselves are torch's own.
"""

import inspect
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

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
