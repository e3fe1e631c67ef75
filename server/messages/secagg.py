"""A secure round of training: the server learns only the sum of the clients' messages.

A try that fails is repeated, without the clients that have to be done without.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from flwr.common import (
    Code,
    FitRes,
    Parameters,
    Scalar,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.circle import Circle
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.secagg.vector import SecureMeans, SecureVector, Steps
from fedmirage.common.wire.metrics import ANSWERED, PARTICIPANTS
from fedmirage.common.wire.payload import LAYOUT, pack
from fedmirage.server.messages.courier import Courier
from fedmirage.server.messages.plain import (
    Asked,
    Fit,
    FitOutcome,
    RoundFailed,
    explain,
    is_one_exception,
    warn,
)
from fedmirage.server.messages.protocol import Protocol
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.strategy.average import Results


@dataclass
class SecureFit(Fit):
    """The server sees no single update: the strategy gets one reply for all that trained."""

    secagg: SecAggOn
    vector: SecureVector
    drawn: int  # clients per round
    # the clients that ended the last try before they trained, and why
    lost: list[dict[str, Any]] = field(default_factory=list)
    # by round, the partitions for which it may have been opened: clients open it for no others
    begun: dict[int, set[int]] = field(default_factory=dict)

    def __call__(self, round_number: int, parameters: Parameters) -> FitOutcome:
        """Ask, wait, add up, aggregate."""
        started = time.perf_counter()
        asked = self.ask(round_number, parameters)
        least = self.secagg.least(self.drawn)
        if len(asked) < least:
            left_out = [entry for entry in self.lost if entry["partition"] in self.roster.left_out]
            raise RoundFailed(
                f"round {round_number}: {len(asked)} clients are connected, and a secure sum of"
                f" {self.drawn} needs at least {least}. {explain(left_out)}".rstrip()
            )
        nodes = {proxy.node_id: proxy.partition for proxy, _ in asked}
        circle = Circle.gather(self.state.token, round_number, nodes)
        shares = self.secagg.key_plan(len(asked)).shares
        courier = Courier(self.send, self.timeout, self.vector.size, asked, circle, shares)
        courier.kept = self.begun.get(round_number)
        try:
            sums, active = self.protocol(asked, courier)
        except RoundFailed as error:
            lost = courier.list_refused()
            hopeless = len(lost) == len(asked) and is_one_exception(lost)
            raise RoundFailed(str(error), hopeless) from None
        finally:
            warn(courier.list_refused())
        answered = time.perf_counter()

        means = self.decode(round_number, sums, parameters, len(active))
        self.count(round_number, active)
        results: Results = [(active[0], make_reply(means, active))] if means else []
        aggregated, metrics = self.strategy.aggregate_fit(round_number, results, [])
        clients = [{"partition": proxy.partition} for proxy in active]
        seconds = {"clients": answered - started, "aggregate": time.perf_counter() - answered}
        totals = (
            {"clients": means.clients, "examples": means.examples}
            if means
            else {"clients": 0, "examples": 0}
        )
        return FitOutcome(
            aggregated,
            metrics,
            clients,
            refused=courier.list_refused(),
            bytes_up=courier.up,
            bytes_down=courier.down,
            seconds=seconds,
            secagg=totals,
        )

    def protocol(self, asked: Asked, courier: Courier) -> tuple[Steps, list[PartitionProxy]]:
        """Do all exchanges; return the sum of the vectors, and the clients in it."""
        protocol = Protocol(self.secagg, asked, courier, self.roster)
        try:
            protocol.exchange_keys()
        except RoundFailed:
            self.lost = courier.list_refused()
            self.roster.left_out |= {entry["partition"] for entry in self.lost}
            raise
        left = protocol.train(max(self.secagg.least(self.drawn), self.min_replies))
        active = sorted(
            (proxy for proxy, _ in asked if proxy.node_id in left),
            key=lambda proxy: proxy.partition,
        )
        try:
            return protocol.open_sum(left), active
        finally:
            if protocol.opening:
                self.begun = {courier.circle.round: {proxy.partition for proxy in active}}

    def decode(
        self, round_number: int, sums: Steps, parameters: Parameters, clients: int
    ) -> SecureMeans | None:
        """Compute the means; a sum that no honest clients can have ends the try, not the run."""
        try:
            return self.vector.decode(sums, parameters_to_ndarrays(parameters), clients)
        except WireError as error:
            raise RoundFailed(f"round {round_number}: {error}.") from None


def make_reply(means: SecureMeans, active: list[PartitionProxy]) -> FitRes:
    """Make one reply that stands for all clients that answered; strategies average it alone."""
    flat, layout = pack(means.sections)
    whose = " ".join(proxy.cid for proxy in active)
    metrics: dict[str, Scalar] = {
        **means.metrics,
        LAYOUT: layout,
        PARTICIPANTS: means.clients,
        ANSWERED: whose,
    }
    return FitRes(
        Status(Code.OK, ""), ndarrays_to_parameters(flat), max(1, means.examples), metrics
    )
