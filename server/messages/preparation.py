"""Lets clients do long work before their first round, in turns that stay far below any deadline.

A method that `prepares` (Distil makes its images) may need minutes or hours on every client. A
client works for some seconds per message, saves what it did, and says how far it is; it is asked
again and again until all is done. So nobody misses a deadline, progress is seen, and a client that
is killed loses one turn. A node that joins later is prepared before it is drawn.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.app import Message
from flwr.common import Scalar

from fedmirage.common.errors import WireError
from fedmirage.common.wire.preparation import PREPARE, Preparation, read_preparation
from fedmirage.server.messages.plain import warn
from fedmirage.server.messages.properties import ask_for_properties, read_properties
from fedmirage.server.messages.replies import Send, clean, read_reply
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.record.results import Results
from fedmirage.server.record.shown import call_clients

TURN = 10.0  # seconds of work per message
START = 300.0  # seconds in which all clients can have begun a turn, each in a new process
# The share of the time to answer in which one core could serve all clients one after the other.
SHARE = 1 / 4
MOST_NOTES = 20  # sentences of one client
LEAST_PROGRESS = 1e-6  # of the whole work per turn
STALLS = 3  # turns in a row without progress, after which a client is given up for this round


@dataclass
class ClientPreparation:
    """What is known of one client while it is prepared."""

    proxy: PartitionProxy
    last: Preparation = field(default_factory=lambda: Preparation(0.0))
    seconds: float = 0.0  # in all turns
    best: float = 0.0  # the largest share of the work that it has reported
    stalls: int = 0
    reason: str = ""  # why it was given up

    @property
    def open(self) -> bool:
        """Whether it needs another turn."""
        return not self.reason and not self.last.finished

    def take(self, reply: Message) -> None:
        """Read what it says after a turn."""
        try:
            turn = read_reply(reply, read_turn)
        except WireError as error:
            self.reason = str(error)
            return
        # A client whose share goes up and down makes no progress, and neither does one that would
        # need more turns than any distillation takes.
        moved = turn.finished or turn.done >= self.best + LEAST_PROGRESS
        self.stalls, self.best = 0 if moved else self.stalls + 1, max(self.best, turn.done)
        if self.stalls == STALLS:
            self.reason = f"its preparation stays at {100 * turn.done:.0f} %"
        self.last, self.seconds = turn, self.seconds + turn.seconds


def read_turn(content: Any) -> Preparation:
    """Read how far a client says it is."""
    turn = read_preparation(read_properties(content))
    return replace(turn, notes=tuple(clean(note) for note in turn.notes[:MOST_NOTES]))


@dataclass
class Preparer:
    """Prepares the clients of a run that are not prepared yet."""

    roster: Roster
    send: Send
    timeout: float  # the round's deadline, which no turn exceeds
    results: Results
    told: Mapping[str, Scalar] = field(default_factory=dict)  # what clients need for their work
    prepared: set[int] = field(default_factory=set)  # ids of the nodes that are ready to train

    def __call__(self, round_number: int) -> list[dict[str, Any]]:
        """Prepare whoever is connected; return those who are not ready, each with its reason.

        They are not drawn in this round, and asked again before the next one.
        """
        started = time.perf_counter()
        all_work = [
            ClientPreparation(proxy)
            for _, proxy in sorted(self.roster.proxies.items())
            if proxy.node_id not in self.prepared
        ]
        while waiting := [work for work in all_work if work.open]:
            self.give_turn(waiting)
            self.show(round_number, all_work)
        ready = [work for work in all_work if work.last.finished]
        self.prepared |= {work.proxy.node_id for work in ready}
        if ready:
            self.record(round_number, ready, time.perf_counter() - started)
        lost: list[dict[str, Any]] = [
            {"partition": work.proxy.partition, "reason": work.reason}
            for work in all_work
            if work.reason
        ]
        warn(lost, self.roster.names)
        return lost

    def forget(self, partitions: set[int]) -> None:
        """Ask these clients again before they are drawn; what they had made may be gone."""
        self.prepared -= {
            proxy.node_id
            for partition, proxy in self.roster.proxies.items()
            if partition in partitions
        }

    def give_turn(self, waiting: list[ClientPreparation]) -> None:
        """Let all of these clients work for a while; who says nothing is lost to this round."""
        seconds = min(TURN, SHARE * self.timeout / len(waiting))
        patience = min(self.timeout, START + seconds * len(waiting) / SHARE)
        told = {PREPARE: seconds, **self.told}
        messages = [ask_for_properties(work.proxy.node_id, told) for work in waiting]
        silent = {work.proxy.node_id: work for work in waiting}
        for node, reply in self.send(messages, patience):
            silent.pop(node).take(reply)
        for work in silent.values():
            work.reason = f"no answer within {patience:.0f} s while it was prepared"

    def show(self, round_number: int, all_work: list[ClientPreparation]) -> None:
        """Say how far all are, while some are not done."""
        counted = [work for work in all_work if not work.reason]
        finished = sum(work.last.finished for work in counted)
        if finished < len(counted):
            share = sum(work.last.done for work in counted) / len(counted)
            text = f"preparing: {finished} of {len(counted)} clients done, {100 * share:.0f} %"
            self.results.note(round_number, text, progress=True)

    def record(self, round_number: int, ready: list[ClientPreparation], seconds: float) -> None:
        """Write who is ready, how long each worked, and what they want to be known."""
        self.pass_on_notes(round_number, ready)
        clients = [{"partition": work.proxy.partition, "seconds": work.seconds} for work in ready]
        line = {"kind": "preparation", "round": round_number, "clients": clients}
        self.results.append({**line, "seconds": seconds})
        reused = sum(not work.seconds for work in ready)
        earlier = f", {reused} by earlier work" if reused else ""
        text = f"preparing: {len(ready)} of {len(ready)} clients done{earlier}"
        self.results.note(round_number, text, progress=True)

    def pass_on_notes(self, round_number: int, ready: list[ClientPreparation]) -> None:
        """Write every sentence once, with the clients that say it; a resumed run repeats none."""
        known = {line["text"] for line in self.results.lines("note")}
        clients: dict[str, list[int]] = {}  # sentence -> those that say it
        for work in ready:
            for note in work.last.notes:
                clients.setdefault(note, []).append(work.proxy.partition)
        for note, some in clients.items():
            text = f"{call_clients(some, self.roster.names)}: {note}"
            if text not in known:
                self.results.note(round_number, text)
