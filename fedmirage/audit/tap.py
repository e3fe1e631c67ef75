"""Notes what a server sends and receives, at the one place where all of it passes."""

from __future__ import annotations

from dataclasses import dataclass, field

from flwr.common import FitIns, FitRes, Parameters, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.strategy import Strategy

from fedmirage.common.methods.fedavg import FedAvg
from fedmirage.common.wire.metrics import PARTICIPANTS
from fedmirage.common.wire.payload import LAYOUT, Arrays, Sections, unpack
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper

SUM = -1  # in place of a partition: one reply that stands for all, as under secure aggregation


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
