"""My method on the server: adds up the label counts, and sends their shares."""

from dataclasses import dataclass, field

import numpy as np
from flwr.common import Parameters
from flwr.server import ClientManager

from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper, attach, mean_section

from . import COUNTS, PRIOR, MyMethod


@dataclass
class MyMethodState:
    """What outlives a round; the checkpoint saves it."""

    prior: Arrays = field(default_factory=list)  # p(y); empty before the first round


class MyMethodServer(StrategyWrapper[MyMethod]):
    """Sends p(y) and counts labels; the model is left to the inner strategy."""

    state: MyMethodState
    state_type = MyMethodState

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Send p(y) to every client that trains; in the first round all classes are alike."""
        classes = self.context.classes
        (prior,) = self.state.prior or [np.full(classes, 1 / classes)]
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        return attach(asked, PRIOR, [np.roll(prior, 1) if self.params.shuffle else prior])

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Shares of the mean counts are shares of their sum."""
        rest, counts = mean_section(results, COUNTS, "uniform")
        if counts and counts[0].sum() > 0:
            self.state.prior = [counts[0] / counts[0].sum()]
        return self.inner.aggregate_fit(server_round, rest, failures)
