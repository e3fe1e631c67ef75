"""One round of training: which clients are asked, what they reply, and which replies count.

It has a deadline, which Flower's own workflow lacks.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from logging import WARNING
from typing import Any, TypeVar, cast

from flwr.app import MessageType
from flwr.common import EvaluateIns, FitIns, FitRes, Parameters, Scalar, log
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from fedmirage.common.errors import TRACEBACK, FedmirageError, WireError
from fedmirage.common.wire.metrics import TERM
from fedmirage.common.wire.payload import size, view
from fedmirage.server.messages.replies import Replies, ReplyCheck, Send, read_reply
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.messages.store import ReplyStore
from fedmirage.server.record.checkpoint import Checkpoint
from fedmirage.server.record.shown import fold

Asked = list[tuple[PartitionProxy, FitIns]]


class RoundFailed(FedmirageError):  # noqa: N818 - it is caught and tried again, not an error of the program
    """Too few usable replies; the round may be tried again, unless that is hopeless.

    Further tries leave out the partitions in `without`, each for its reason.
    """

    def __init__(
        self, text: str, hopeless: bool = False, without: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(text)
        self.hopeless, self.without = hopeless, dict(without or {})


@dataclass
class FitOutcome:
    """The result of a round of training."""

    parameters: Parameters | None
    metrics: dict[str, Scalar]
    clients: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    secagg: dict[str, int] | None = None  # totals over all clients, known from a secure sum
    without: Collection[int] = ()  # partitions that were not drawn from


@dataclass
class Fit(ABC):
    """One round of training, plain or secure.

    Calling it makes one try, which raises RoundFailed if the round may be tried again.
    """

    strategy: Strategy
    roster: Roster
    send: Send
    timeout: float
    min_replies: int
    state: Checkpoint  # knows the last round in which each client's reply counted

    @abstractmethod
    def __call__(
        self, round_number: int, parameters: Parameters, without: Mapping[int, str]
    ) -> FitOutcome:
        """Ask clients but for those to do `without`, wait, check, aggregate."""

    @abstractmethod
    def score(self, round_number: int, parameters: Parameters, asked: Asked) -> FitOutcome:
        """Ask clients to score a model without training, and wait; there are metrics alone."""

    def ask(self, round_number: int, parameters: Parameters, without: Mapping[int, str]) -> Asked:
        """Draw the clients of a round, and prepare the instructions for each of them."""
        draw = self.roster.draw(round_number, without)
        drawn = self.strategy.configure_fit(round_number, parameters, draw)
        return cast(
            Asked, [(proxy, add_last_counted(ins, proxy, self.state)) for proxy, ins in drawn]
        )

    def count(self, round_number: int, proxies: Iterable[ClientProxy]) -> None:
        """Note that these clients' replies counted: they may remember this round."""
        if self.state.counted is not None:
            self.state.counted |= {proxy.cid: round_number for proxy in proxies}


def explain(refused: list[dict[str, Any]], names: Mapping[int, str]) -> str:
    """Say which clients were left out, and why."""
    return "; ".join(f"{who}: {reason}" for who, reason in fold(refused, names).items())


def warn(refused: list[dict[str, Any]], names: Mapping[int, str]) -> None:
    """Say the same in Flower's log."""
    for who, reason in fold(refused, names).items():
        log(WARNING, "left out of this round, %s: %s", who, reason)


def is_one_exception(refused: list[dict[str, Any]]) -> bool:
    """Whether all of these clients raised the same exception, as a mistake in a method does.

    Only clients on the server's own host say which one it was, and where its traceback is.
    """
    reasons = {entry["reason"] for entry in refused}
    return len(reasons) == 1 and TRACEBACK in reasons.pop()


@dataclass
class PlainFit(Fit):
    """Every client's update is seen by the server."""

    check: ReplyCheck
    store: ReplyStore

    def __call__(
        self, round_number: int, parameters: Parameters, without: Mapping[int, str]
    ) -> FitOutcome:
        """Ask, wait, check, aggregate."""
        try:
            return self.fit(round_number, parameters, without)
        finally:
            self.store.clear()

    def fit(
        self, round_number: int, parameters: Parameters, without: Mapping[int, str]
    ) -> FitOutcome:
        """Do so, with replies that are kept until the end of the round."""
        started = time.perf_counter()
        asked = self.ask(round_number, parameters, without)
        sizes: list[int] = []
        before = list(map(view, parameters.tensors)) if self.check.wire.declared else []

        def read(content: Any) -> FitRes:
            reply = self.check.read(content)
            sizes.append(size(reply.parameters))
            return self.check.restore(reply, before)

        results, refused = self.collect(round_number, asked, read)
        answered = time.perf_counter()
        bytes_down = sum(size(ins.parameters) for _, ins in asked)
        self.count(round_number, (proxy for proxy, _ in results))
        aggregated, metrics = self.strategy.aggregate_fit(round_number, results, [])
        seconds = {"clients": answered - started, "aggregate": time.perf_counter() - answered}
        clients = [client_record(proxy, result) for proxy, result in results]
        return FitOutcome(aggregated, metrics, clients, refused, sum(sizes), bytes_down, seconds)

    def score(self, round_number: int, parameters: Parameters, asked: Asked) -> FitOutcome:
        """Ask, wait, check; every reply holds metrics alone."""
        results, refused = self.collect(round_number, asked, self.check.read_metrics)
        clients = [client_record(proxy, result) for proxy, result in results]
        return FitOutcome(None, {}, clients, refused)

    def collect(
        self, round_number: int, asked: Asked, read: Callable[[Any], FitRes]
    ) -> tuple[list[tuple[ClientProxy, FitRes]], list[dict[str, Any]]]:
        """Return the usable replies and the reasons for all others; too few are a failure."""
        contents = [(proxy, compat.fitins_to_recorddict(ins, True)) for proxy, ins in asked]
        messages = [proxy.message(one, MessageType.TRAIN, round_number) for proxy, one in contents]
        replies = self.send(messages, self.timeout)
        proxies = [proxy for proxy, _ in asked]
        results, refused = sort_replies(proxies, replies, read, self.timeout, self.store.keep)
        for _, content in contents:
            content.clear()  # it refers to itself, and would keep the old model until it is found
        warn(refused, self.roster.names)
        if len(results) < self.min_replies:
            why = explain(refused, self.roster.names) or "no client was connected"
            raise RoundFailed(
                f"round {round_number}: {len(results)} usable replies, {self.min_replies} needed"
                f" (min-replies). {why}",
                hopeless=not results and is_one_exception(refused),
            )
        return results, refused


T = TypeVar("T")


def sort_replies(
    proxies: Iterable[ClientProxy],
    replies: Replies,
    read: Callable[[Any], T],
    timeout: float,
    keep: Callable[[T], T] = lambda reply: reply,
) -> tuple[list[tuple[ClientProxy, T]], list[dict[str, Any]]]:
    """Return the usable replies in partition order, and the reasons for all other clients.

    Each is read as soon as it is there, and what `keep` makes of it is kept.
    """
    silent = {cast(PartitionProxy, proxy).node_id: proxy for proxy in proxies}
    results: list[tuple[ClientProxy, T]] = []
    reasons: dict[int, str] = {}
    for node, reply in replies:
        proxy = silent.pop(node)
        try:
            usable = read_reply(reply, read)
        except WireError as error:
            reasons[int(proxy.cid)] = str(error)
            continue
        results.append((proxy, keep(usable)))
    late = f"no answer within {timeout:.0f} s (round-timeout)"
    reasons |= {int(proxy.cid): late for proxy in silent.values()}
    refused = [{"partition": who, "reason": reasons[who]} for who in sorted(reasons)]
    return sorted(results, key=lambda pair: int(pair[0].cid)), refused


Ins = TypeVar("Ins", FitIns, EvaluateIns)


def add_last_counted(ins: Ins, proxy: ClientProxy, state: Checkpoint) -> Ins:
    """Tell a client the last round in which its reply counted; it must forget all later ones."""
    if state.counted is None:
        return ins
    return replace(ins, config={**ins.config, "since": state.counted.get(proxy.cid, 0)})


def client_record(proxy: ClientProxy, result: FitRes) -> dict[str, Any]:
    """Return what results.jsonl records about one client in one round."""
    metrics = {
        name: value for name, value in result.metrics.items() if isinstance(value, int | float)
    }
    train = {
        name.removeprefix(TERM): value for name, value in metrics.items() if name.startswith(TERM)
    }
    rest = {name: value for name, value in metrics.items() if not name.startswith(TERM)}
    return {"partition": int(proxy.cid), "examples": result.num_examples, "train": train, **rest}
