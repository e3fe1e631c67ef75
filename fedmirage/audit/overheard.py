"""A run whose server notes all that it sees, and the truth that attacks are scored with.

What it sends and receives is noted at the one place where all of it passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from flwr.app import Context, RecordDict
from flwr.common import FitIns, FitRes, Parameters, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.strategy import Strategy
from torch import Tensor

from fedmirage.audit.attack import PICTURES
from fedmirage.client.app import make_app
from fedmirage.client.build import build_client
from fedmirage.client.client import FederatedClient
from fedmirage.client.round import LocalRound
from fedmirage.common.data.loading import load
from fedmirage.common.data.view import ClientView
from fedmirage.common.memory import Memory
from fedmirage.common.methods.fedavg import FedAvg
from fedmirage.common.models.base import Model
from fedmirage.common.run import Run, make_run
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.metrics import PARTICIPANTS
from fedmirage.common.wire.payload import LAYOUT, SHARED, Arrays, Sections, unpack
from fedmirage.runtimes.inprocess import LocalGrid
from fedmirage.server.run import run as conduct
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper

SUM = -1  # in place of a partition: one reply that stands for all, as under secure aggregation
Batch = tuple[Tensor, Tensor]  # normalised inputs, and labels


@dataclass(frozen=True)
class TappedReply:
    """What a client answered, or, under secure aggregation, the mean of what all answered."""

    sections: Sections
    examples: int
    metrics: dict[str, float]
    participants: int = 1  # how many clients are in it


@dataclass
class Exchange:
    """What crossed the wire in one round, by partition."""

    number: int
    sent: dict[int, Sections] = field(default_factory=dict)
    received: dict[int, TappedReply] = field(default_factory=dict)
    outcome: Arrays = field(default_factory=list)  # `shared` as the server made it of the replies


class Tap(StrategyWrapper[FedAvg]):
    """The outermost strategy, which changes nothing and keeps a copy of every message's content.

    What it sees is what the server may know: each checked reply with all its sections or, under
    secure aggregation, the one reply that was made of their sum.
    """

    def __init__(self, inner: Strategy) -> None:
        super().__init__(inner, FedAvg())
        self.exchanges: dict[int, Exchange] = {}

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Note what every client gets; a round that is tried again counts as it was last tried."""
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        sent = {int(proxy.cid): read_sections(ins) for proxy, ins in asked}
        self.exchanges[server_round] = Exchange(server_round, sent)
        return asked

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Note what came back."""
        received = self.exchanges[server_round].received
        for proxy, result in results:
            summed = PARTICIPANTS in result.metrics
            received[SUM if summed else int(proxy.cid)] = read_reply(result)
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if aggregated is not None:
            self.exchanges[server_round].outcome = parameters_to_ndarrays(aggregated)
        return aggregated, metrics


def read_sections(message: FitIns | FitRes) -> Sections:
    """Decode the sections of a message as its layout names them."""
    facts = message.config if isinstance(message, FitIns) else message.metrics
    return unpack(parameters_to_ndarrays(message.parameters), str(facts[LAYOUT]))


def read_reply(result: FitRes) -> TappedReply:
    """Decode a reply."""
    told = result.metrics
    numbers = {name: float(one) for name, one in told.items() if isinstance(one, int | float)}
    participants = int(numbers.pop(PARTICIPANTS, 1))
    return TappedReply(read_sections(result), result.num_examples, numbers, participants)


def silent(text: str) -> None:
    """Tell nobody."""


@dataclass
class Overheard:
    """All that a server knows after a few rounds; only `truth` knows more."""

    config: RunConfig
    run: Run  # facts that server and clients derive from the same settings
    rounds: list[Exchange]
    folder: Path
    tell: Callable[[str], None] = silent  # shows how far an attack is

    def model(self) -> Model:
        """Build the network with the weights that it begins with, which the run's seed gives."""
        _, model = make_run(self.config, self.run.dataset, torch.device("cpu"))
        return model

    def before(self, number: int) -> Arrays:
        """Return the shared weights that the clients of a round began with."""
        sent = self.rounds[number - 1].sent
        return sent[min(sent)][SHARED]

    def after(self, number: int) -> Arrays:
        """Return the shared weights that the server made of a round's replies."""
        return self.rounds[number - 1].outcome

    def picture(self, name: str) -> Path:
        """Return where a picture of the audit is to be written."""
        folder = self.folder / PICTURES
        folder.mkdir(exist_ok=True)
        return folder / name

    @cached_property
    def truth(self) -> Truth:
        """Return what the server does not know."""
        return Truth(self.config, self.folder)


@dataclass
class Truth:
    """The clients' own data, with which attacks are scored and never carried out."""

    config: RunConfig
    folder: Path
    clients: dict[int, FederatedClient] = field(default_factory=dict)

    def client(self, partition: int) -> FederatedClient:
        """Build a client as a message would find it."""
        if partition not in self.clients:
            facts = {"partition-id": partition, "num-partitions": self.config.clients}
            context = Context(1, partition, dict(facts), RecordDict(), {})
            self.clients[partition] = build_client(self.config, context, self.folder / "memory")
        return self.clients[partition]

    def view(self, partition: int) -> ClientView:
        """Return which samples a client has."""
        return self.client(partition).view

    def batches(self, partition: int, number: int) -> list[Batch]:
        """Return the batches that a client trained its model on in a round."""
        client = self.client(partition)
        local = LocalRound(
            **client.surroundings(),
            number=number,
            model=client.model,
            received={},
            memory=Memory(self.folder / PICTURES, number),
            lr=self.config.learning_rate(number),
        )
        return [(images.contiguous(), labels) for images, labels in local.data.batches(local)]

    def pixels(self, images: Tensor) -> Tensor:
        """Turn normalised pictures into numbers from 0 (black) to 1 (white)."""
        data = self.client(0).view.dataset
        scale, shift = (torch.tensor(value).view(1, -1, 1, 1) for value in (data.std, data.mean))
        return (images * scale + shift).clamp(0, 1)


def overhear(config: RunConfig, tell: Callable[[str], None] = silent) -> Overheard:
    """Do all rounds of a run in this process; return what its server has seen."""
    taps: list[Tap] = []
    folder = Path(config.out)

    def listen(strategy: Strategy) -> Strategy:
        taps.append(Tap(strategy))
        return taps[-1]

    grid = LocalGrid(make_app(config, folder / "memory"), config.clients)
    try:
        conduct(grid, config, listen)
    finally:
        grid.close()
    rounds = [taps[0].exchanges[number] for number in sorted(taps[0].exchanges)]
    dataset = load(config.dataset, config.data_dir or None, config.download)
    run, _ = make_run(config, dataset, torch.device("cpu"))
    return Overheard(config, run, rounds, folder, tell)
