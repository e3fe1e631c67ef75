"""FedDyn on the server: the mean of the clients' gradient estimates, and the step against it.

Declared in common/methods/feddyn.py.
"""

from dataclasses import dataclass, field

import numpy as np
from flwr.common import Parameters
from flwr.server import ClientManager

from fedmirage.common.methods.feddyn import MOVED, FedDyn
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results, participants
from fedmirage.server.strategy.rule import ServerRule
from fedmirage.server.strategy.wrapper import Instructions, mean_section


@dataclass
class FedDynState:
    """What outlives a round."""

    # h, the mean of all h_i, one array per trainable weight; empty before the first round.
    gradient: Arrays = field(default_factory=list)


class FedDynServer(ServerRule[FedDyn]):
    """w <- average - h / alpha for trainable weights; the others are averaged only."""

    state: FedDynState
    state_type = FedDynState
    clients = 0  # N, updated in every round

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Send nothing beside the model, since clients keep their own h_i."""
        self.clients = client_manager.num_available()
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """h <- h - alpha (|S|/N) mean_S (w_i - w), over the clients that trained; then the step."""
        share = participants(results) / self.clients
        rest, moved = mean_section(results, MOVED, "uniform")
        if moved:
            before = self.state.gradient or [np.zeros_like(array) for array in moved]
            self.state.gradient = [
                h - self.params.alpha * share * delta
                for h, delta in zip(before, moved, strict=True)
            ]
        return super().aggregate_fit(server_round, rest, failures)

    def step(self, broadcast: Arrays, average: Arrays) -> Arrays:
        """average - h / alpha."""
        return [
            array - h / self.params.alpha
            for array, h in zip(average, self.state.gradient, strict=True)
        ]
