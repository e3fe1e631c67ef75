"""Differential privacy on the server: noise on the average (central), and the budget (both)."""

from dataclasses import dataclass, field
from logging import INFO
from statistics import fmean

from flwr.common import (
    Parameters,
    Scalar,
    log,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server.client_manager import ClientManager
from flwr.server.strategy import Strategy

from common.dp.noise import gaussian
from common.dp.settings import CentralDp, LocalDp
from common.wire.figures import CLIPPED
from common.wire.payload import Array
from server.strategy.average import Failures, Results, participants
from server.strategy.budget import DELTA, EPSILON, Draw, epsilon, figures, spent
from server.strategy.context import ServerContext, StandAlone
from server.strategy.wrapper import Instructions, StrategyWrapper


def dp_average(average: Strategy, context: ServerContext) -> Strategy:
    """Wrap the average as the run's `dp` requires; outer strategies see no other average."""
    dp = context.config.dp_params
    if isinstance(dp, CentralDp):
        return CentralNoise(average, dp, context)
    return LocalBudget(average, dp, context) if isinstance(dp, LocalDp) else average


@dataclass
class Releases:
    """What outlives a round."""

    # "drawn/present" -> the number of rounds in which an average of such a draw was released
    counts: dict[str, int] = field(default_factory=dict)


class CentralNoise(StrategyWrapper[CentralDp]):
    """average + N(0, (noise clip / m)^2), where m clients trained; wraps the average directly."""

    state: Releases

    def __init__(
        self, inner: Strategy, params: CentralDp, context: ServerContext | StandAlone | None = None
    ) -> None:
        super().__init__(inner, params, context)
        self.state = Releases()
        self.draw: Draw = (1, 1)  # of this round

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Note how many clients are drawn, and how many are present and so can be drawn."""
        instructions = super().configure_fit(server_round, parameters, client_manager)
        self.draw = (len(instructions), len(client_manager.all()))
        return instructions

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Add the noise, and report the budget.

        The deviation on the sum is noise * clip, whatever the number of clients that answered. A
        round in which no client trained costs nothing.
        """
        aggregated, metrics = super().aggregate_fit(server_round, results, failures)
        if aggregated is not None:
            deviation = self.params.noise * self.params.clip / participants(results)
            arrays = [add_noise(array, deviation) for array in parameters_to_ndarrays(aggregated)]
            aggregated = ndarrays_to_parameters(arrays)
            key = "/".join(map(str, self.draw))
            self.state.counts[key] = self.state.counts.get(key, 0) + 1
        clipped = [
            float(result.metrics[CLIPPED])
            for _, result in results
            if result.num_examples and CLIPPED in result.metrics
        ]
        # A share of the clients, while other figures are weighted by examples.
        share: dict[str, Scalar] = {CLIPPED: fmean(clipped)} if clipped else {}
        releases = {parse_draw(key): count for key, count in self.state.counts.items()}
        return aggregated, {
            **metrics,
            **share,
            **report_budget(server_round, self.params.multiplier, releases, self.params.delta),
        }


@dataclass
class Asked:
    """What outlives a round."""

    # partition -> how often its client was asked to train
    counts: dict[str, int] = field(default_factory=dict)


class LocalBudget(StrategyWrapper[LocalDp]):
    """Counts the replies of each client; the budget is that of the client with the most.

    Every request counts as answered: a reply that came too late, or in a round that failed and was
    retried, has left its client too.
    """

    state: Asked

    def __init__(
        self, inner: Strategy, params: LocalDp, context: ServerContext | StandAlone | None = None
    ) -> None:
        super().__init__(inner, params, context)
        self.state = Asked()
        self.begun = False

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Count the requests; those of the first round of a resumed run count twice.

        Their clients may have answered already before the run was interrupted.
        """
        instructions = super().configure_fit(server_round, parameters, client_manager)
        times = 1 if self.begun or not self.state.counts else 2
        self.begun = True
        for proxy, _ in instructions:
            self.state.counts[proxy.cid] = self.state.counts.get(proxy.cid, 0) + times
        return instructions

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Pass the average on, and report the budget."""
        aggregated, metrics = super().aggregate_fit(server_round, results, failures)
        releases = {(1, 1): max(self.state.counts.values(), default=0)}
        return aggregated, {
            **metrics,
            **report_budget(server_round, self.params.multiplier, releases, self.params.delta),
        }


def add_noise(array: Array, deviation: float) -> Array:
    """Add noise and keep the type; without noise, the array stays the same bit for bit."""
    return (array + gaussian(array.shape, deviation)).astype(array.dtype) if deviation else array


def report_budget(
    round_number: int, multiplier: float, releases: dict[Draw, int], delta: float
) -> dict[str, Scalar]:
    """Compute what has been spent, and write it to Flower's log."""
    found: dict[str, Scalar] = {EPSILON: epsilon(multiplier, releases, delta), DELTA: delta}
    log(INFO, "round %s: privacy spent: %s", round_number, spent(figures(found)))
    return found


def parse_draw(key: str) -> Draw:
    """Turn a key of Releases.counts into numbers."""
    drawn, present = map(int, key.split("/"))
    return drawn, present
