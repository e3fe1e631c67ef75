"""How a method is written to be tried in two short rounds, and on what."""

import itertools
from functools import cache
from typing import Any, Literal, get_args, get_origin

import numpy as np
from pydantic import ValidationError

from fedmirage.common.methods import METHODS
from fedmirage.common.settings.language import write

# Four clients of unlike size and classes, with one to three steps: FedNova and FedExP have
# something to do.
BASE: dict[str, Any] = {
    "dataset": "digits(limit=60, size=8)",
    "partition": "classes(per_client=2)",
    "clients": 4,
    "rounds": 2,
    "model": "mlp(hidden=8, layers=1)",
    "local_epochs": 1,
    "batch_size": 6,
    "lr": 0.1,
    "eval_every": 2,
    "server_threads": 1,
}
BATCH_NORM = "convnet(width=2, depth=1, norm='batch')"
GUESSES = (1, 2, 0.5, "a", True)  # for a parameter without a default


@cache
def line(name: str) -> str:
    """Write a method with parameters that make it act in two short rounds: its `quick` ones."""
    method = METHODS[name]
    required = {
        key: info.annotation
        for key, info in method.model_fields.items()
        if info.is_required() and key not in method.quick
    }
    choices = [
        get_args(kind) if get_origin(kind) is Literal else GUESSES for kind in required.values()
    ]
    for values in itertools.product(*choices):
        try:
            found = method(**method.quick, **dict(zip(required, values, strict=True)))
        except ValidationError:
            continue
        return name + write(found).removeprefix(found.name)
    raise AssertionError(f"{name} needs {', '.join(required)}; declare them as its `quick` ones")


def finite(result: list[np.ndarray]) -> bool:
    """Whether there are weights, and all are finite."""
    return bool(result) and all(np.isfinite(array).all() for array in result)
