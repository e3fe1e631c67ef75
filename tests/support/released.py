"""What a run offers to its user, for methods that score and save another model than they train."""

from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays

from fedmirage.common.wire.files import read_arrays
from fedmirage.server.strategy.wrapper import release
from tests.support.rules import one_round, reply


def saved(folder: Path, name: str = "model.safetensors") -> dict[str, np.ndarray]:
    return read_arrays(folder / name)[0]


def released_after(strategy: Any, *models: list[float]) -> list[float]:
    """Let one client return each of these models, and see what is released after the last."""
    sent = [0.0] * len(models[0])
    for number, model in enumerate(models, start=1):
        (sent,) = one_round(strategy, [sent], reply(model), number=number)
        assert sent == model  # the clients go on with the global model itself
    offered = release(strategy, ndarrays_to_parameters([np.array(sent, np.float32)]))
    return [float(value) for value in parameters_to_ndarrays(offered)[0]]
