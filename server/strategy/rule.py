"""A server rule: a step from the model that was broadcast, made of what the clients' average says.

The reference is the model that this round sent out, never the rule's own last output: the two
differ where a method further out changes the model (DynaFed), and after a resume. BatchNorm's
running statistics are averaged and otherwise left alone.
"""

import numpy as np
from flwr.common import Parameters, Scalar, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_manager import ClientManager

from common.wire.payload import Array, Arrays
from server.strategy.average import Failures, Results
from server.strategy.wrapper import Instructions, M, StrategyWrapper


class ServerRule(StrategyWrapper[M]):
    """Remembers what was broadcast, lets the inner strategy average, and hands both to `step`."""

    broadcast: Arrays  # w in the papers: the model that this round's clients started from

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Keep the model that goes out; a round that is tried again sends the same one."""
        self.broadcast = parameters_to_ndarrays(parameters)
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """The inner average, and from it the next model; a round in which nobody trained leaves
        everything as it was."""
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if aggregated is None:
            return None, metrics
        arrays = parameters_to_ndarrays(aggregated)
        manifest = self.context.describe(arrays)
        moved = [position for position, entry in enumerate(manifest) if entry.trainable]
        stepped = self.step(
            [self.broadcast[position] for position in moved],
            [arrays[position] for position in moved],
        )
        for position, array in zip(moved, stepped, strict=True):
            arrays[position] = array.astype(arrays[position].dtype, copy=False)
        return ndarrays_to_parameters(arrays), metrics

    def step(self, broadcast: Arrays, average: Arrays) -> Arrays:
        """The next weights, given the broadcast ones and the clients' average; trainable weights
        only."""
        raise NotImplementedError


def plus(average: Array, extra: Array) -> Array:
    """average + extra, where nothing is added to the very bits of the average: -0.0 + 0.0 would be
    +0.0."""
    return np.where(extra == 0, average, average + extra)
