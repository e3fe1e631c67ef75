"""A secure round of training: the server learns only the sum of the clients' messages.

A try that fails is repeated, without the clients that have to be done without.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

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
from fedmirage.common.secagg.keys import Steps
from fedmirage.common.secagg.protocol import ADVERTISE, SHARE, SecureTask
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.secagg.vector import SecureMeans, SecureVector
from fedmirage.common.wire.metrics import ANSWERED, PARTICIPANTS
from fedmirage.common.wire.payload import LAYOUT, pack
from fedmirage.server.messages.carrier import Carrier
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
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.strategy.average import Results

Summed = tuple[SecureMeans | None, set[int]]  # the means, if anybody trained, and who answered


@dataclass
class SumFit(Fit):
    """The server sees no single update: the strategy gets one reply for all that trained."""

    def __call__(
        self, round_number: int, parameters: Parameters, without: Mapping[int, str]
    ) -> FitOutcome:
        """Ask, wait, add up, aggregate."""
        started = time.perf_counter()
        drawn = self.ask(round_number, parameters, without)
        asked = sorted(drawn, key=lambda pair: pair[0].partition)
        carrier = Carrier(round_number, asked, self.send, self.timeout)
        try:
            means, left = self.add_up(carrier, parameters, without)
        except RoundFailed as error:
            lost = carrier.list_lost()
            error.hopeless = len(lost) == len(asked) and is_one_exception(lost)
            raise
        finally:
            warn(carrier.list_lost(), self.roster.names)
        answered = time.perf_counter()
        active = [proxy for proxy, _ in asked if proxy.partition in left]
        self.count(round_number, active)
        results: Results = [(active[0], make_reply(means, active))] if means else []
        aggregated, metrics = self.strategy.aggregate_fit(round_number, results, [])
        clients, examples = (means.clients, means.examples) if means else (0, 0)
        return FitOutcome(
            aggregated,
            metrics,
            [{"partition": proxy.partition} for proxy in active],
            carrier.list_lost(),
            carrier.up,
            carrier.down,
            {"clients": answered - started, "aggregate": time.perf_counter() - answered},
            {"clients": clients, "examples": examples},
        )

    def score(self, round_number: int, parameters: Parameters, asked: Asked) -> FitOutcome:
        """Add up the clients' metrics, of which the server learns the sums."""
        asked = sorted(asked, key=lambda pair: pair[0].partition)
        carrier = Carrier(round_number, asked, self.send, self.timeout)
        summing = self.only_metrics()
        try:
            means, left = summing.add_up(carrier, parameters, {})
        finally:
            warn(carrier.list_lost(), self.roster.names)
        metrics: dict[str, Scalar] = {**means.metrics} if means else {}
        clients = [{"partition": partition} for partition in sorted(left)]
        counts = {"clients": means.clients, "examples": means.examples} if means else {}
        return FitOutcome(None, metrics, clients, carrier.list_lost(), secagg=counts)

    def only_metrics(self) -> Self:
        """Return the same round for clients that send metrics alone."""
        raise NotImplementedError

    @abstractmethod
    def add_up(
        self, carrier: Carrier, parameters: Parameters, without: Mapping[int, str]
    ) -> Summed:
        """Do all exchanges of one try; raise RoundFailed if the round may be tried again."""


@dataclass
class SecureFit(SumFit):
    """Rounds with our own protocol."""

    secagg: SecAggOn
    vector: SecureVector
    drawn: int  # clients per round
    opener: "SecureSum" = field(init=False)

    def __post_init__(self) -> None:
        self.opener = SecureSum(self.roster, self.secagg, self.min_replies)

    def only_metrics(self) -> Self:
        """Return the same round for clients that send metrics alone."""
        alone = replace(self, vector=self.vector.only_metrics)
        alone.opener = self.opener  # which knows what clients have said of others
        return alone

    def add_up(
        self, carrier: Carrier, parameters: Parameters, without: Mapping[int, str]
    ) -> Summed:
        """Open the sum of the vectors, and compute the means that follow from it."""
        before = parameters_to_ndarrays(parameters)
        return self.opener.open(
            carrier,
            self.drawn,
            self.vector.size,
            lambda sums, active: self.vector.decode(sums, before, active),
            without,
        )


T = TypeVar("T")


@dataclass
class SecureSum:
    """Opens the sums of our own protocol."""

    roster: Roster
    secagg: SecAggOn
    min_replies: int
    believed: set[int] = field(default_factory=set)  # clients that have said alone who is to go

    def open(
        self,
        carrier: Carrier,
        drawn: int,
        size: int,
        decode: Callable[[Steps, int], T],
        without: Mapping[int, str],
    ) -> tuple[T, set[int]]:
        """Return what `decode` makes of the sum and the number of clients in it, and who they are.

        `drawn` clients were to be asked, for vectors of this size.
        """
        quorum, asked = self.secagg.quorum(drawn), carrier.asked
        if len(asked) < quorum:
            known = [(one, reason) for one, reason in without.items() if reason]
            why = [{"partition": one, "reason": reason} for one, reason in sorted(known)]
            raise RoundFailed(
                f"round {carrier.number}: {len(asked)} clients are connected, and a secure sum of"
                f" {drawn} needs at least {quorum}. {explain(why, self.roster.names)}".rstrip()
            )
        width = self.secagg.width(drawn)
        protocol = Protocol(SecureTask.of(asked[0][1]), quorum, size, width, carrier)
        try:
            sums = protocol.run(self.min_replies)
            return decode(sums, len(protocol.left)), set(protocol.left)
        except (RoundFailed, WireError) as error:
            failed = error if isinstance(error, RoundFailed) else carrier.failed(f"{error}.")
            failed.without = self.do_without(protocol)
            raise failed from None

    def do_without(self, protocol: Protocol) -> dict[int, str]:
        """Find whoever was lost early, is to blame, or may not be there in further tries, and why.

        Clients that have begun to open a round open it for nobody else. What one client alone says
        of others is believed once; the next time it is left out itself.
        """
        everybody, lost = set(range(self.roster.clients)), protocol.carrier.lost
        if protocol.left:
            return dict.fromkeys(everybody - set(protocol.left), "")
        said = [(everybody - set(clients), who) for clients, who in protocol.bound.items()]
        said += [({accused}, who) for accused, who in protocol.accused.items()]
        out = set(lost) if protocol.stage in (ADVERTISE, SHARE) and not said else set()
        for partitions, who in said:
            alone = who if len(who) == 1 else set()
            out |= alone if alone & self.believed else partitions
            self.believed |= alone
        why = protocol.carrier.explain_lost()
        return {one: lost.get(one, why) for one in out}


def make_reply(means: SecureMeans, active: list[PartitionProxy]) -> FitRes:
    """Make one reply that stands for all clients that answered; strategies average it alone."""
    flat, layout = pack(means.sections)
    whose = " ".join(proxy.cid for proxy in active)
    told: dict[str, Scalar] = {LAYOUT: layout, PARTICIPANTS: means.clients, ANSWERED: whose}
    parameters, status = ndarrays_to_parameters(flat), Status(Code.OK, "")
    return FitRes(status, parameters, max(1, means.examples), {**means.metrics, **told})
