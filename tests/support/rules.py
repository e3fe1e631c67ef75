"""Server rules on a few numbers: a round is a broadcast model and the clients' replies."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.common import (
    Code,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)

from fedmirage.common.data.loading import load
from fedmirage.common.memory import local_models
from fedmirage.common.methods import half
from fedmirage.common.run import make_run
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.strategy.average import Average, shares_of, weighted_mean
from fedmirage.server.strategy.context import ServerContext
from fedmirage.server.strategy.wrapper import StrategyWrapper
from tests.support.facts import entries, make_facts
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, weights
from tests.support.strategies import Client, Manager

RULES = ["fedavgm(momentum=0.9)", "fedadam", "fedyogi", "fedadagrad", "fedexp", "fednova"]


def rule(
    line: str, *shapes: int, trainable: tuple[bool, ...] | None = None, **settings: Any
) -> StrategyWrapper[Any]:
    """Wrap an average of arrays of these lengths into a method's server half."""
    config = configure({"methods": line, **settings})
    (method,) = config.method_list
    kind = half("server", method, StrategyWrapper)
    assert kind is not None
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    context = None
    if trainable:
        names = (f"features.{at}" for at in range(len(arrays)))
        run = make_facts(config, manifest=entries(*zip(names, arrays, trainable, strict=True)))
        context = ServerContext(run, None)  # type: ignore[arg-type]
    return kind(Average(arrays, weighting=config.weighs), method, context)


def reply(*arrays: list[float], examples: int = 1, **sections: float) -> FitRes:
    """A client's message: its shared arrays, and sections of one number each."""
    flat = [np.array(array, np.float32) for array in arrays] + [
        np.array([value]) for value in sections.values()
    ]
    layout = " ".join([f"shared:{len(arrays)}", *(f"{name}:1" for name in sections)])
    return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(flat), examples, {"layout": layout})


def one_round(
    strategy: Any, broadcast: list[list[float]], *replies: FitRes, number: int = 1
) -> list[list[float]]:
    """Compute the next global model. configure_fit runs twice, as in a round that is retried."""
    sent = ndarrays_to_parameters([np.array(array, np.float32) for array in broadcast])
    for _ in range(2):
        strategy.configure_fit(number, sent, Manager())
    aggregated, _ = strategy.aggregate_fit(
        number, [(Client(client), one) for client, one in enumerate(replies)], []
    )
    assert isinstance(aggregated, Parameters)
    arrays = parameters_to_ndarrays(aggregated)
    assert all(array.dtype == np.float32 for array in arrays)
    return [array.tolist() for array in arrays]


def initial(config: RunConfig) -> list[np.ndarray]:
    """The weights that a run begins with."""
    dataset = load(config.dataset, config.data_dir or None)
    return make_run(config, dataset, torch.device("cpu"))[0].initial


def buffers(config: RunConfig) -> list[int]:
    """Positions of BatchNorm's running statistics among the weights."""
    dataset = load(config.dataset, config.data_dir or None)
    manifest = make_run(config, dataset, torch.device("cpu"))[0].manifest
    return [position for position, entry in enumerate(manifest) if not entry.trainable]


def named(config: RunConfig) -> list[str]:
    """Names of all weights."""
    dataset = load(config.dataset, config.data_dir or None)
    return list(make_run(config, dataset, torch.device("cpu"))[0].manifest.names)


def last_local_models(folder: Path) -> tuple[list[list[np.ndarray]], list[float]]:
    """Every client's model of its last round, and the weight that it has by its examples."""
    state = read_checkpoint(folder / "checkpoint.safetensors")
    found = local_models(folder / "memory" / state.token, state.round)
    shares = shares_of([examples for examples, _ in found], "examples")
    assert shares is not None
    return [arrays for _, arrays in found], shares


def assert_buffers_are_averaged(folder: Path, methods: str) -> None:
    """Run two rounds with BatchNorm: only its statistics are the clients' average, bit for bit."""
    config = run_in_process(
        folder,
        **{**SMALL, "rounds": 2},
        model="lenet-bn",
        methods=methods,
        momentum=0.5,
        keep_models="all",
    )
    models, shares = last_local_models(folder)
    average = weighted_mean(models, shares, [array.dtype for array in models[0]])
    positions, found = buffers(config), weights(folder)
    assert positions
    for position in positions:
        assert found[position].tobytes() == average[position].tobytes()
    rest = set(range(len(found))) - set(positions)
    assert any(found[position].tobytes() != average[position].tobytes() for position in rest)
