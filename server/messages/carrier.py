"""Carries the messages of a secure round: with a deadline, checks, and a list of who was lost."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flwr.app import Message, RecordDict

from fedmirage.common.errors import WireError
from fedmirage.server.messages.plain import Asked, RoundFailed, explain
from fedmirage.server.messages.replies import Send, read_reply

EARLY = 2  # exchanges of Flower's workflow before clients train


@dataclass
class Carrier:
    """Asks the clients of one try."""

    number: int  # of the round
    asked: Asked
    send: Send
    timeout: float
    lost: dict[int, str] = field(default_factory=dict)  # by partition, why
    up: int = 0  # bytes received
    down: int = 0  # bytes sent
    exchanges: int = 0  # of Flower's workflow

    def exchange(
        self, messages: Iterable[Message], check: Callable[[int, RecordDict], Any]
    ) -> dict[int, Message]:
        """Send messages, and return the replies that pass the check; whoever sends none is lost."""
        sent, replies = list(messages), dict[int, Message]()
        places = {proxy.node_id: proxy.partition for proxy, _ in self.asked}
        silent = {places[message.metadata.dst_node_id] for message in sent}
        self.down += sum(count_bytes(message.content) for message in sent)
        for node, reply in self.send(sent, self.timeout):
            silent.discard(places[node])
            try:
                read_reply(reply, partial(check, places[node]))
            except WireError as error:
                self.lost[places[node]] = str(error)
                continue
            self.up += count_bytes(reply.content)
            replies[places[node]] = reply
        reason = f"no answer within {self.timeout:.0f} s (round-timeout)"
        self.lost |= dict.fromkeys(silent, reason)
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Do the same for Flower's workflow, which checks nothing.

        It would go on without a client that is lost before training, and fail after it.
        """
        replies = self.exchange(messages, lambda *_: None)
        self.exchanges += 1
        if self.lost and self.exchanges <= EARLY:
            raise WireError("a client was lost before the training")
        return [*replies.values()]

    def failed(self, why: str) -> RoundFailed:
        """Say why the try ends, and who was lost."""
        return RoundFailed(f"round {self.number}: {why} {self.explain_lost()}".rstrip())

    def explain_lost(self) -> str:
        """Say who was lost, and why."""
        names = {proxy.partition: proxy.name for proxy, _ in self.asked}
        return explain(self.list_lost(), names)

    def list_lost(self) -> list[dict[str, Any]]:
        """List the lost clients and the reasons, by partition, for results.jsonl."""
        found = sorted(self.lost.items())
        return [{"partition": partition, "reason": reason} for partition, reason in found]


def count_bytes(content: RecordDict) -> int:
    """Count the bytes of a message's arrays, and of the keys, shares and vectors in it."""
    arrays = [array for record in content.array_records.values() for array in record.values()]
    values = [value for record in content.config_records.values() for value in record.values()]
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    total = sum(len(array.data) for array in arrays)
    return total + sum(len(part) for part in parts if isinstance(part, bytes))
