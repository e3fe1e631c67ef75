"""Carries the messages of secure aggregation with a deadline.

Malformed replies are refused here, so that they never reach Flower's workflow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.agreement import (
    AGREE,
    AGREEMENT,
    DRAW,
    LOT,
    LOTS,
    NODES,
    SEALED_LOT,
    SIGNATURES,
    SURVIVORS,
    TAGS,
)
from fedmirage.common.secagg.circle import CIRCLE, Circle
from fedmirage.common.secagg.masks import GENERATOR, MASKS
from fedmirage.common.secagg.settings import REFUSAL
from fedmirage.server.messages.plain import Asked
from fedmirage.server.messages.records import count_bytes, find_signatures, read_parts, write_tags
from fedmirage.server.messages.replies import clean, read_reply
from fedmirage.server.messages.sampling import Send
from fedmirage.server.messages.secure_checks import (
    find_senders_of_equal_keys,
    problem_of_keys,
    problem_of_lot,
    problem_of_sealed_lot,
    problem_of_vector,
)

# by stage, the fields that name the clients that a reply's parts belong to, and the parts
PARTS = {
    Stage.SHARE_KEYS: (Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST),
    AGREE: (NODES, TAGS),
    Stage.UNMASK: (Key.NODE_ID_LIST, Key.SHARE_LIST),
}


@dataclass
class Courier:
    """Stands in for the grid in Flower's workflow: has a deadline, checks replies, counts bytes."""

    send: Send
    timeout: float
    size: int  # of a masked vector
    asked: Asked
    circle: Circle
    shares: int  # of each client's keys
    kept: set[int] | None = None  # the partitions for which clients have begun to open the round
    up: int = 0  # bytes received
    down: int = 0  # bytes sent
    reasons: dict[int, str] = field(default_factory=dict)  # node -> why it was lost
    # node -> who told it which clients are left, and the tags that prove it
    tags: dict[int, dict[int, bytes]] = field(default_factory=dict)
    signatures: dict[int, bytes] = field(default_factory=dict)  # of the nodes' public keys
    sealed_lots: dict[int, bytes] = field(default_factory=dict)  # what binds nodes to their lots
    lots: dict[int, bytes] = field(default_factory=dict)  # from which the seats were drawn

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Return the usable replies; a client without one is lost to this try of the round."""
        waiting, stage = {message.metadata.dst_node_id: message for message in messages}, ""
        for node in waiting.keys() & self.reasons.keys():
            del waiting[node]  # it was lost while the clients agreed on who is left
        for message in waiting.values():
            stage = self.complete(message)
            self.down += count_bytes(message)
        usable: dict[int, Message] = {}
        silent = set(waiting)
        for node, reply in self.send(list(waiting.values()), self.timeout):
            silent.remove(node)
            try:
                reason = read_reply(reply, partial(self.problem, stage, waiting[node]))
            except WireError as error:
                reason = str(error)
            if reason is None:
                usable[node] = reply
            else:
                self.reasons[node] = reason
        self.reasons |= dict.fromkeys(
            silent, f"no answer within {self.timeout:.0f} s (round-timeout)"
        )
        if stage == Stage.SETUP:
            for node in find_senders_of_equal_keys(usable):
                self.reasons[node] = "its public keys are also those of another client"
                del usable[node]
            self.signatures = find_signatures(usable)
            self.sealed_lots = read_parts(usable, SEALED_LOT) if self.draws_lots else {}
        self.up += sum(map(count_bytes, usable.values()))
        return list(usable.values())

    def complete(self, message: Message) -> str:
        """Add what our clients need beside Flower's request; return the stage."""
        request = message.content.config_records[RECORD_KEY_CONFIGS]
        stage = str(request[Key.STAGE])
        if stage == Stage.SETUP:
            request[MASKS] = GENERATOR
            message.content.config_records[CIRCLE] = self.circle.write()
        elif stage == Stage.SHARE_KEYS:
            known = {node: tag for node, tag in self.signatures.items() if str(node) in request}
            message.content.config_records[SIGNATURES] = write_tags(known)
            message.content.config_records[LOTS] = write_tags(self.lots)
        elif stage == Stage.UNMASK and self.tags:
            tags = self.tags.get(message.metadata.dst_node_id, {})
            message.content.config_records[AGREEMENT] = write_tags(tags)
        return stage

    @property
    def draws_lots(self) -> bool:
        """Whether it matters who sits where, because not all clients are neighbours."""
        return self.shares < len(self.circle.partitions)

    def draw_seats(self) -> int:
        """Let the clients draw lots, and take their seats; return how many clients have drawn."""
        content = {LOTS: write_tags(self.sealed_lots)}
        messages = [
            self.write_request(node, {Key.STAGE: DRAW}, **content) for node in self.sealed_lots
        ]
        replies = {reply.metadata.src_node_id: reply for reply in self.send_and_receive(messages)}
        self.lots = read_parts(replies, LOT)
        if len(self.lots) == len(self.circle.partitions):
            self.circle = self.circle.seat(self.lots)
        return len(self.lots)

    def write_request(self, node: int, request: dict[str, Any], **records: ConfigRecord) -> Message:
        """Write a message of a stage that Flower's workflow does not have."""
        content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord(request), **records})
        return Message(content, node, MessageType.TRAIN, group_id=str(self.circle.round))

    def collect_agreement(self, survivors: set[int]) -> int:
        """Ask who would open the sum of these clients; return how many would.

        Their tags are passed on to their neighbours with the next message.
        """
        request = {Key.STAGE: AGREE, SURVIVORS: sorted(survivors)}
        messages = [self.write_request(node, request) for node in sorted(survivors)]
        replies = self.send_and_receive(messages)
        for reply in replies:
            answer = reply.content.config_records[RECORD_KEY_CONFIGS]
            targets, tags = cast(list[int], answer[NODES]), cast(list[bytes], answer[TAGS])
            for target, tag in zip(targets, tags, strict=True):
                self.tags.setdefault(target, {})[reply.metadata.src_node_id] = tag
        return len(replies)

    def problem(self, stage: str, asked: Message, content: RecordDict) -> str | None:
        """Say why a reply cannot be used; return None if it can."""
        records = content.config_records
        if REFUSAL in records:
            return clean(records[REFUSAL].get("reason"))
        if RECORD_KEY_CONFIGS not in records:
            return "it sent a plain reply; does it run the same version, with secagg?"
        answer = records[RECORD_KEY_CONFIGS]
        if stage == Stage.SETUP and answer.get(MASKS) != GENERATOR:
            return f"its masks do not come from {GENERATOR!r}; run the same version on both sides"
        if stage == Stage.SETUP:
            return problem_of_keys(answer) or problem_of_sealed_lot(answer, self.draws_lots)
        if stage == DRAW:
            return problem_of_lot(answer, self.sealed_lots[asked.metadata.dst_node_id])
        if stage == Stage.COLLECT_MASKED_VECTORS:
            partition = self.circle.partitions[asked.metadata.dst_node_id]
            if self.kept is not None and partition not in self.kept:
                return "it was lost in an earlier try, and the others open the round without it"
            return problem_of_vector(answer.get(Key.MASKED_PARAMETERS), self.size)
        return self.problem_of_parts(stage, answer, asked)

    def problem_of_parts(self, stage: str, answer: ConfigRecord, asked: Message) -> str | None:
        """Check that a reply has one part, and only one, for each client that it was asked for."""
        request = asked.content.config_records[RECORD_KEY_CONFIGS]
        node = asked.metadata.dst_node_id
        if stage == Stage.SHARE_KEYS:
            wanted = {int(name) for name in request if name != Key.STAGE} - {node}
        elif stage == AGREE:
            survivors = set(cast(list[int], request[SURVIVORS]))
            wanted = self.circle.neighbours(node, self.shares) & survivors - {node}
        else:
            lists = (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
            wanted = {owner for key in lists for owner in cast(list[int], request[key])}
        owners, values = (answer.get(key) for key in PARTS[stage])
        if not isinstance(owners, list) or not isinstance(values, list):
            return "its key shares are malformed"
        right = len(owners) == len(values) == len(wanted) and set(owners) == wanted
        right = right and all(isinstance(value, bytes) for value in values)
        return None if right else "its key shares are malformed"

    def list_refused(self) -> list[dict[str, Any]]:
        """List the lost clients and the reasons, by partition, for results.jsonl."""
        lost = [
            (proxy.partition, self.reasons[proxy.node_id])
            for proxy, _ in self.asked
            if proxy.node_id in self.reasons
        ]
        return [{"partition": partition, "reason": reason} for partition, reason in sorted(lost)]
