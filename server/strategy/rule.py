"""A server rule: a step from the model that was broadcast, computed from the clients' average.

The step starts from the model that this round sent out, never from the rule's own last output: the
two differ if an outer method changes the model (DynaFed), and after a resume. BatchNorm's running
statistics are only averaged.
"""

import numpy as np
from flwr.common import Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ClientManager

from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.wrapper import Instructions, M, StrategyWrapper


class ServerRule(StrategyWrapper[M]):
    """Remembers what was broadcast, lets the inner strategy average, and passes both to `step`."""

    broadcast: Arrays  # w in the papers: the model that this round's clients started from

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Remember the model that is sent; a retried round sends the same one."""
        self.broadcast = parameters_to_ndarrays(parameters)
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Make the next model from the inner average.

        A round in which no client trained leaves everything as it was.
        """
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if aggregated is None:
            return None, metrics
        arrays = parameters_to_ndarrays(aggregated)
        manifest = self.context.describe(arrays)
        weights = manifest.weights
        before, average = (weights.pick(model, manifest) for model in (self.broadcast, arrays))
        stepped = self.step(before, average)
        typed = [
            new.astype(old.dtype, copy=False) for new, old in zip(stepped, average, strict=True)
        ]
        return ndarrays_to_parameters(weights.place(typed, arrays, manifest)), metrics

    def step(self, broadcast: Arrays, average: Arrays) -> Arrays:
        """Compute the next weights from the broadcast ones and the average; trainable ones only."""
        raise NotImplementedError


def plus(average: Array, extra: Array) -> Array:
    """Add extra to the average, but keep the average's bits where extra is zero.

    A plain sum would turn -0.0 + 0.0 into +0.0.
    """
    return np.where(extra == 0, average, average + extra)
