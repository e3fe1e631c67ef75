"""Differential privacy on the server: noise on the average (central), and the budget (central and
local)."""

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
    """The average as the run's `dp` lets it out; nothing further out sees any other."""
    dp = context.config.dp_params
    if isinstance(dp, CentralDp):
        return CentralNoise(average, dp, context)
    return LocalBudget(average, dp, context) if isinstance(dp, LocalDp) else average


@dataclass
class Releases:
    """What outlives a round."""

    # "drawn/present" -> rounds in which an average of such a draw was made
    counts: dict[str, int] = field(default_factory=dict)


class CentralNoise(StrategyWrapper[CentralDp]):
    """average + N(0, (noise clip / m)^2), where m clients trained; sits directly round the
    average."""

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
        """How many are drawn, and of how many; those who are not there cannot be."""
        instructions = super().configure_fit(server_round, parameters, client_manager)
        self.draw = (len(instructions), len(client_manager.all()))
        return instructions

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """On the sum it is noise * clip, however many have answered; a round in which nobody
        trained costs nothing."""
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
        # of clients; other figures weigh by examples
        share: dict[str, Scalar] = {CLIPPED: fmean(clipped)} if clipped else {}
        releases = {draw_of(key): count for key, count in self.state.counts.items()}
        return aggregated, {
            **metrics,
            **share,
            **budget(server_round, self.params.multiplier, releases, self.params.delta),
        }


@dataclass
class Asked:
    """What outlives a round."""

    # partition -> how often this client was asked to train
    counts: dict[str, int] = field(default_factory=dict)


class LocalBudget(StrategyWrapper[LocalDp]):
    """Counts what each client has sent; the budget is that of the one that sent most.

    Asked counts as sent: a reply that came too late, or in a round that failed and was tried again,
    has left its client.
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
        """The first round of a resumed run counts twice: its clients may have answered before the
        run was interrupted."""
        instructions = super().configure_fit(server_round, parameters, client_manager)
        times = 1 if self.begun or not self.state.counts else 2
        self.begun = True
        for proxy, _ in instructions:
            self.state.counts[proxy.cid] = self.state.counts.get(proxy.cid, 0) + times
        return instructions

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """The average as it is, and the budget."""
        aggregated, metrics = super().aggregate_fit(server_round, results, failures)
        releases = {(1, 1): max(self.state.counts.values(), default=0)}
        return aggregated, {
            **metrics,
            **budget(server_round, self.params.multiplier, releases, self.params.delta),
        }


def add_noise(array: Array, deviation: float) -> Array:
    """An array of the same type; to the bit the same where there is no noise."""
    return (array + gaussian(array.shape, deviation)).astype(array.dtype) if deviation else array


def budget(
    round_number: int, multiplier: float, releases: dict[Draw, int], delta: float
) -> dict[str, Scalar]:
    """What has been spent, also said in Flower's log."""
    found: dict[str, Scalar] = {EPSILON: epsilon(multiplier, releases, delta), DELTA: delta}
    log(INFO, "round %s: privacy spent: %s", round_number, spent(figures(found)))
    return found


def draw_of(key: str) -> Draw:
    """A key of Releases.counts as numbers."""
    drawn, present = map(int, key.split("/"))
    return drawn, present
