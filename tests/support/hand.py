"""A federation of a few numbers, for rounds that can be worked out by hand.

The model is y = w . x and the loss (y - t)^2 / 2; there is no data set and no grid. Everything else
is the real code: the training loop, the methods' halves, the average, memories on disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from torch import Tensor, nn

from fedmirage.client.objective import LocalRound, Objective
from fedmirage.client.train import train
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.methods import half
from fedmirage.common.models.base import Model
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import LAYOUT, SHARED, pack, unpack
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.wrapper import StrategyWrapper
from tests.support.facts import make_facts
from tests.support.strategies import Client

# (samples, inputs) and (samples,) targets
Batch = tuple[Sequence[Sequence[float]], Sequence[float]]


class Squares:
    """(y - t)^2 / 2, mean over the batch."""

    name = "squares"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return (logits[:, 0] - labels).square().mean() / 2


@dataclass
class Batches:
    """The batches of a client's round, as given."""

    given: Sequence[Batch]

    def batches(self, local: LocalRound) -> Iterator[tuple[Tensor, Tensor]]:
        for images, labels in self.given:
            yield torch.tensor(images), torch.tensor(labels)


def linear_model(*weights: float) -> Model:
    """y = w . x: the inputs are the features."""
    model = Model(
        nn.Sequential(nn.Identity()), nn.Linear(len(weights), 1, bias=False), len(weights)
    )
    from_arrays(model, [np.array([weights], np.float32)])
    return model


def settings(methods: str, **more: Any) -> RunConfig:
    return configure(
        {
            "methods": methods,
            "lr": 0.5,
            "momentum": 0.0,
            "weighting": "uniform",
            "clients": 2,
            **more,
        }
    )


def open_round(
    model: Model, batches: Sequence[Batch], config: RunConfig, memory: Memory, received: Any = None
) -> LocalRound:
    """A client's round on any model that takes the batches as they are."""
    return LocalRound(
        number=memory.round,
        partition=0,
        run=make_facts(config, model, classes=1, task=Squares()),  # type: ignore[arg-type]
        model=model,
        data=Batches(batches),  # type: ignore[arg-type]
        received=received or {},
        memory=memory,
        lr=config.learning_rate(memory.round),
        broadcast=to_arrays(model),
    )


def visit(local: LocalRound) -> tuple[dict[str, float], dict[str, list[np.ndarray]]]:
    """Do what FederatedClient does in a round: begin, train, end, remember.

    Returns the means of the terms, and the sections.
    """
    halves = [(method, half("client", method, Objective)) for method in local.config.method_list]
    objectives = [kind(method) for method, kind in halves if kind is not None]
    for objective in objectives:
        objective.begin(local)
    terms = train(local, objectives)
    local.model.eval()
    sections: dict[str, list[np.ndarray]] = {}
    for objective in objectives:
        sections |= objective.end(local)
    local.memory.put(LOCAL_MODEL, to_arrays(local.model))
    local.memory.close()
    return terms, sections


@dataclass
class Federation:
    """Clients whose rounds are lists of batches, and the strategy that the methods line gives."""

    folder: Path
    config: RunConfig
    model: Model
    clients: list[list[Batch]]
    terms: list[dict[str, float]] = field(default_factory=list)  # of the last round's clients
    strategy: Any = None
    weights: list[np.ndarray] = field(default_factory=list)
    round: int = 0

    def __post_init__(self) -> None:
        self.weights = to_arrays(self.model)
        self.strategy = Average(self.weights, weighting=self.config.weighs)
        for method in self.config.method_list:
            kind = half("server", method, StrategyWrapper)
            self.strategy = kind(self.strategy, method) if kind is not None else self.strategy

    def run(self, rounds: int = 1, drawn: Sequence[int] | None = None) -> list[np.ndarray]:
        """Run more rounds with the clients named, or with all; returns the global weights."""
        for _ in range(rounds):
            self.round += 1
            manager = Everybody(len(self.clients), drawn)
            asked = self.strategy.configure_fit(
                self.round, ndarrays_to_parameters(self.weights), manager
            )
            self.terms = []
            replies = [(proxy, self.answer(int(proxy.cid), ins)) for proxy, ins in asked]
            aggregated, _ = self.strategy.aggregate_fit(self.round, replies, [])
            self.weights = parameters_to_ndarrays(aggregated)
        return self.weights

    def answer(self, client: int, ins: Any) -> FitRes:
        received = unpack(parameters_to_ndarrays(ins.parameters), str(ins.config[LAYOUT]))
        from_arrays(self.model, received.pop(SHARED))
        local = open_round(
            self.model,
            self.clients[client],
            self.config,
            self.memory(client, self.round),
            received=received,
        )
        terms, sections = visit(local)
        self.terms.append(terms)
        flat, layout = pack({SHARED: to_arrays(self.model), **sections})
        return FitRes(
            Status(Code.OK, ""),
            ndarrays_to_parameters(flat),
            len(self.clients[client]),
            {LAYOUT: layout},
        )

    def memory(self, client: int, round_number: int) -> Memory:
        return Memory(self.folder / f"client-{client}", round_number)

    def remembered(self, client: int, key: str) -> list[np.ndarray] | None:
        return self.memory(client, self.round + 1).get(key)


@dataclass
class Everybody:
    """A client manager that draws the clients it is told to draw."""

    clients: int
    drawn: Sequence[int] | None

    def num_available(self) -> int:
        return self.clients

    def sample(
        self, num_clients: int, min_num_clients: int | None = None, criterion: Any = None
    ) -> list[Client]:
        return [
            Client(number)
            for number in (self.drawn if self.drawn is not None else range(self.clients))
        ]
