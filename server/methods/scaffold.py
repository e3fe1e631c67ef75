"""SCAFFOLD on the server: the common control variate. Declared in common/methods/scaffold.py."""

from dataclasses import dataclass, field

import numpy as np
from flwr.common import Parameters, parameters_to_ndarrays
from flwr.server import ClientManager

from fedmirage.common.methods.scaffold import CONTROL, CONTROL_DELTA, Scaffold
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results, participants
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper, attach, mean_section


@dataclass
class ScaffoldState:
    """What outlives a round."""

    # c, one array per trainable weight; empty before the first round.
    control: Arrays = field(default_factory=list)


class ScaffoldServer(StrategyWrapper[Scaffold]):
    """Sends c, and updates it by the mean change of the clients' control variates.

    The model is left to the inner strategy.
    """

    state: ScaffoldState
    state_type = ScaffoldState
    clients = 0  # N, updated in every round

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Send c to every client that trains."""
        self.clients = client_manager.num_available()
        if not self.state.control:
            model = parameters_to_ndarrays(parameters)
            manifest = self.context.describe(model)
            self.state.control = [
                np.zeros_like(array) for array in manifest.weights.pick(model, manifest)
            ]
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        return attach(asked, CONTROL, self.state.control)

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """c <- c + (|S|/N) mean_S (c_i+ - c_i), over the clients that trained."""
        share = participants(results) / self.clients
        rest, moved = mean_section(results, CONTROL_DELTA, "uniform")
        if moved:
            self.state.control = [
                control + share * delta
                for control, delta in zip(self.state.control, moved, strict=True)
            ]
        return self.inner.aggregate_fit(server_round, rest, failures)
