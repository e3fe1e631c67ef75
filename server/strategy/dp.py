"""Differential privacy on the server: noise on the average (central), and the budget (both)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from statistics import fmean
from typing import Any, TypeVar

from flwr.common import (
    FitRes,
    Parameters,
    Scalar,
    log,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from fedmirage.common.dp.bound import bound_update
from fedmirage.common.dp.ledger import FILE as RELEASES
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.dp.noise import gaussian
from fedmirage.common.dp.settings import CentralDp, DpOn, LocalDp
from fedmirage.common.errors import FedmirageError
from fedmirage.common.wire.metrics import CLIPPED, PARTICIPANTS
from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results, participants
from fedmirage.server.strategy.budget import DELTA, EPSILON, Draw, epsilon, metrics, spent
from fedmirage.server.strategy.context import ServerContext, StandAlone
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper

D = TypeVar("D", bound=DpOn)


def dp_average(average: Strategy, context: ServerContext) -> Strategy:
    """Wrap the average as the run's `dp` requires; outer strategies see no other average."""
    dp = context.config.dp_params
    if isinstance(dp, CentralDp):
        return CentralNoise(average, dp, context)
    return LocalBudget(average, dp, context) if isinstance(dp, LocalDp) else average


@dataclass
class Releases:
    """What outlives a round; the ledger has the details."""

    count: int = 0  # entries of the ledger at the time of the checkpoint


class Counted(StrategyWrapper[D]):
    """Keeps the ledger of a run: what is released, or asked for, is on the disk before it leaves.

    The ledger lies beside the checkpoint and is never cut: what was released between the last
    checkpoint and a crash stays counted.
    """

    state: Releases
    state_type = Releases

    def __init__(
        self, inner: Strategy, params: D, context: ServerContext | StandAlone | None = None
    ) -> None:
        super().__init__(inner, params, context)
        folder = self.context.folder
        self.ledger = Ledger(None if folder is None else folder / RELEASES)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Refuse to go on where it is not known what has been released."""
        if len(self.ledger.entries) < self.state.count:
            raise FedmirageError(
                f"the privacy ledger {self.ledger.path} has {len(self.ledger.entries)} entries, but"
                f" the checkpoint counts {self.state.count}; restore the file from a copy"
            )
        return super().configure_fit(server_round, parameters, client_manager)

    def write_down(self, **entry: Any) -> None:
        """Add an entry to the ledger."""
        self.ledger.add(**entry)
        self.state.count = len(self.ledger.entries)

    def report_budget(self, round_number: int, releases: Mapping[Draw, int]) -> dict[str, Scalar]:
        """Compute what has been spent, and write it to Flower's log."""
        delta = self.params.delta
        used = epsilon(self.params.multiplier, releases, delta)
        found: dict[str, Scalar] = {EPSILON: used, DELTA: delta}
        log(INFO, "round %s: privacy spent: %s", round_number, spent(metrics(found)))
        return found


class CentralNoise(Counted[CentralDp]):
    """average + N(0, (noise clip / m)^2), where m clients trained; wraps the average directly."""

    draw: Draw  # of this round
    broadcast: Arrays  # what this round's clients start from

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Note how many clients are drawn, and out of how many that can be drawn."""
        instructions = super().configure_fit(server_round, parameters, client_manager)
        self.draw = (len(instructions), len(client_manager.all()))
        self.broadcast = parameters_to_ndarrays(parameters)
        return instructions

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Bound what is seen, add the noise, and report the budget.

        The deviation on the sum is noise * clip, whatever the number of clients that answered. A
        round in which no client trained costs nothing.
        """
        bounded = [(proxy, self.bound(proxy, result)) for proxy, result in results]
        aggregated, metrics = super().aggregate_fit(server_round, bounded, failures)
        if aggregated is not None:
            drawn, present = self.draw
            self.write_down(round=server_round, drawn=drawn, present=present)
            deviation = self.params.noise * self.params.clip / participants(results)
            arrays = [add_noise(array, deviation) for array in parameters_to_ndarrays(aggregated)]
            aggregated = ndarrays_to_parameters(arrays)
        clipped = [
            float(result.metrics[CLIPPED])
            for _, result in results
            if result.num_examples and CLIPPED in result.metrics
        ]
        # A share of the clients, while other metrics are weighted by examples.
        share: dict[str, Scalar] = {CLIPPED: fmean(clipped)} if clipped else {}
        releases = Counter((entry["drawn"], entry["present"]) for entry in self.ledger.entries)
        return aggregated, {**metrics, **share, **self.report_budget(server_round, releases)}

    def bound(self, proxy: ClientProxy, result: FitRes) -> FitRes:
        """Bound an update again, because its client may not have; a secure sum stays as it is."""
        if PARTICIPANTS in result.metrics:
            return result
        sent = parameters_to_ndarrays(result.parameters)
        arrays, clipped = bound_update(sent, self.broadcast, self.params.clip)
        if not clipped:
            return result
        if not result.metrics.get(CLIPPED):
            log(WARNING, "client %s did not bound its update; the server has done it", proxy.cid)
        return replace(result, parameters=ndarrays_to_parameters(arrays))


class LocalBudget(Counted[LocalDp]):
    """Counts the rounds that each client was asked for; the budget is that of the client with most.

    Every request counts as answered: a reply that came too late, or in a round that failed, has
    left its client too. A client that is asked for a round again sends the same reply.
    """

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Write down who is asked before the messages leave."""
        instructions = super().configure_fit(server_round, parameters, client_manager)
        # Clients keep their replies by run, and a folder without a checkpoint may see a second one.
        token = next((str(ins.config.get("token", "")) for _, ins in instructions), "")
        asked = [int(proxy.cid) for proxy, _ in instructions]
        self.write_down(run=token, round=server_round, asked=asked)
        return instructions

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Pass the average on, and report the budget."""
        aggregated, metrics = super().aggregate_fit(server_round, results, failures)
        asked = {
            (client, entry["run"], entry["round"])
            for entry in self.ledger.entries
            for client in entry["asked"]
        }
        rounds = Counter(client for client, _, _ in asked)
        releases = {(1, 1): max(rounds.values(), default=0)}
        return aggregated, {**metrics, **self.report_budget(server_round, releases)}


def add_noise(array: Array, deviation: float) -> Array:
    """Add noise and keep the type; without noise, the array stays the same bit for bit."""
    return (array + gaussian(array.shape, deviation)).astype(array.dtype) if deviation else array
