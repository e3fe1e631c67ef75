"""One round of training: who is asked, what comes back, what of it counts. With a deadline, which Flower's own workflow lacks."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from logging import WARNING
from typing import Any, Protocol

from flwr.app import Message, MessageType
from flwr.common import FitRes, Parameters, Scalar, log
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from common.errors import FedmirageError
from common.payload import size
from server.average import TERM, in_partition_order
from server.checks import ReplyCheck
from server.sampling import PartitionProxy, Roster


class RoundFailed(FedmirageError):  # noqa: N818 - it is caught and tried again, not an error of the program
    """Too few usable replies; the round may be tried again."""


@dataclass
class FitOutcome:
    """What a round of training came to."""

    parameters: Parameters | None
    metrics: dict[str, Scalar]
    clients: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class FitRound(Protocol):
    """One try at one round; raises RoundFailed if it may be tried again."""

    def __call__(self, round_number: int, parameters: Parameters) -> FitOutcome: ...


@dataclass
class PlainFit:
    """Every client's update is seen by the server."""

    strategy: Strategy
    roster: Roster
    send: Callable[[list[Message], float], list[Message]]
    check: ReplyCheck
    timeout: float
    min_replies: int

    def __call__(self, round_number: int, parameters: Parameters) -> FitOutcome:
        """Ask, wait, check, aggregate."""
        started = time.perf_counter()
        asked = self.strategy.configure_fit(round_number, parameters, self.roster)
        messages = [
            Message(compat.fitins_to_recorddict(ins, True), proxy.node_id, MessageType.TRAIN, group_id=str(round_number))
            for proxy, ins in asked
        ]
        bytes_down = sum(size(ins.parameters) for _, ins in asked)
        replies = self.send(messages, self.timeout)
        answered = time.perf_counter()

        results, refused = self._sort(asked, replies)
        if len(results) < self.min_replies:
            why = (
                "; ".join(f"client {entry['partition']}: {entry['reason']}" for entry in refused)
                or "nobody was there to be asked"
            )
            raise RoundFailed(
                f"round {round_number}: {len(results)} usable replies, {self.min_replies} needed (min-replies). {why}"
            )
        bytes_up = sum(size(result.parameters) for _, result in results)
        aggregated, metrics = self.strategy.aggregate_fit(round_number, results, [])
        seconds = {"clients": answered - started, "aggregate": time.perf_counter() - answered}
        clients = [client_record(proxy, result) for proxy, result in results]
        return FitOutcome(aggregated, metrics, clients, refused, bytes_up, bytes_down, seconds)

    def _sort(self, asked: Any, replies: list[Message]) -> tuple[list[tuple[ClientProxy, FitRes]], list[dict[str, Any]]]:
        """Usable replies in partition order, and for everybody else the reason."""
        silent: dict[int, PartitionProxy] = {proxy.node_id: proxy for proxy, _ in asked}
        results: list[tuple[ClientProxy, FitRes]] = []
        refused: list[dict[str, Any]] = []
        for reply in replies:
            proxy = silent.pop(reply.metadata.src_node_id)
            reason: str | None
            if reply.has_error():
                reason = f"it failed: {reply.error.reason}"
            else:
                result = compat.recorddict_to_fitres(reply.content, False)
                reason = self.check.problem(result)
                if reason is None:
                    results.append((proxy, result))
            if reason is not None:
                refused.append({"partition": proxy.partition, "reason": reason})
        refused += [
            {"partition": proxy.partition, "reason": f"no answer within {self.timeout:.0f} s (round-timeout)"}
            for proxy in silent.values()
        ]
        for entry in refused:
            log(WARNING, "client %s is left out of this round: %s", entry["partition"], entry["reason"])
        return in_partition_order(results), sorted(refused, key=lambda entry: int(entry["partition"]))


def client_record(proxy: ClientProxy, result: FitRes) -> dict[str, Any]:
    """What results.jsonl tells of one client in one round."""
    figures = {name: value for name, value in result.metrics.items() if isinstance(value, int | float)}
    train = {name.removeprefix(TERM): value for name, value in figures.items() if name.startswith(TERM)}
    rest = {name: value for name, value in figures.items() if not name.startswith(TERM)}
    return {"partition": int(proxy.cid), "examples": result.num_examples, "train": train, **rest}
