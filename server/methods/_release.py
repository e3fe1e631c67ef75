"""A method that scores and saves an average over rounds, while the clients go on without it.

A round's global model passes through unchanged. What is released in its place is kept as state, so
that a resumed run has it too.
"""

from abc import abstractmethod
from typing import TypeVar

from flwr.common import EvaluateIns, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy

from fedmirage.common.methods.ema import Ema
from fedmirage.common.methods.swa import Swa
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results, Scored
from fedmirage.server.strategy.wrapper import StrategyWrapper

A = TypeVar("A", bound=Swa | Ema)


class Release(StrategyWrapper[A]):
    """Collects global models from round `start` on, and answers for the model that is released.

    `state.entered` counts the global models that have entered the average.
    """

    @abstractmethod
    def collect(self, model: Arrays) -> None:
        """Take one more global model into the average."""

    @abstractmethod
    def average(self, model: Arrays) -> Arrays:
        """Return what is released in place of the last global model, whose types it has."""

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Pass the next global model on, and collect it; a round without training has none."""
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if aggregated is not None and server_round >= self.params.start:
            self.collect(parameters_to_ndarrays(aggregated))
            metrics = {**metrics, f"{self.params.name}.models": self.state.entered}
        return aggregated, metrics

    def released(self, parameters: Parameters) -> Parameters:
        """Return the average over rounds, once it has more than one model in it."""
        if self.idle():
            return parameters
        return ndarrays_to_parameters(self.average(parameters_to_ndarrays(parameters)))

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Let clients validate what is released."""
        return super().configure_evaluate(server_round, self.released(parameters), client_manager)

    def evaluate(self, server_round: int, parameters: Parameters) -> Scored | None:
        """Score what is released, and beside it the last global model."""
        last = super().evaluate(server_round, parameters)
        scored = last if self.idle() else super().evaluate(server_round, self.released(parameters))
        if last is None or scored is None:
            return scored
        name = f"{self.params.name}.last"
        more = {f"{name}.loss": last[0], f"{name}.accuracy": last[1].get("accuracy", None)}
        found = {key: value for key, value in more.items() if value is not None}
        return scored[0], {**scored[1], **found}

    def idle(self) -> str | None:
        """Say that nothing is averaged yet: the average of one model is that model."""
        if self.state.entered > 1:
            return None
        return f"it had {self.state.entered} global models to average"
