"""Carries the messages of secure aggregation with a deadline.

Malformed replies are refused here, so that they never reach Flower's workflow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.supercore.primitives.asymmetric import bytes_to_public_key

from common.errors import WireError
from common.secagg.masks import GENERATOR, MASKS, WORD
from common.secagg.settings import MODULUS_BITS, REFUSAL
from common.wire.payload import decode
from server.messages.checks import HEADER, clean, read_reply
from server.messages.plain import Asked
from server.messages.sampling import Send

# For each stage, the field that names the owners of key shares, and the field with the shares.
KEY_SHARES = {
    Stage.SHARE_KEYS: (Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST),
    Stage.UNMASK: (Key.NODE_ID_LIST, Key.SHARE_LIST),
}


@dataclass
class Courier:
    """Stands in for the grid in Flower's workflow: has a deadline, checks replies, counts bytes."""

    send: Send
    timeout: float
    size: int  # of a masked vector
    asked: Asked
    up: int = 0  # bytes received
    down: int = 0  # bytes sent
    reasons: dict[int, str] = field(default_factory=dict)  # node -> why it was lost

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Return the usable replies; a client without one is lost to this try of the round."""
        waiting, stage = {message.metadata.dst_node_id: message for message in messages}, ""
        for message in waiting.values():
            request = message.content.config_records[RECORD_KEY_CONFIGS]
            stage = str(request[Key.STAGE])
            if stage == Stage.SETUP:
                request[MASKS] = GENERATOR
            self.down += count_bytes(message)
        usable = []
        for node, reply in self.send(list(waiting.values()), self.timeout):
            del waiting[node]
            try:
                reason = read_reply(reply, partial(self.problem, stage))
            except WireError as error:
                reason = str(error)
            if reason is None:
                self.up += count_bytes(reply)
                usable.append(reply)
            else:
                self.reasons[node] = reason
        self.reasons |= dict.fromkeys(
            waiting, f"no answer within {self.timeout:.0f} s (round-timeout)"
        )
        return usable

    def problem(self, stage: str, content: RecordDict) -> str | None:
        """Say why a reply cannot be used; return None if it can."""
        records = content.config_records
        if REFUSAL in records:
            return clean(records[REFUSAL].get("reason"))
        if RECORD_KEY_CONFIGS not in records:
            return "it sent a plain reply; does it run the same version, with secagg?"
        answer = records[RECORD_KEY_CONFIGS]
        if stage == Stage.SETUP and answer.get(MASKS) != GENERATOR:
            return f"its masks do not come from {GENERATOR!r}; run the same version on both sides"
        if stage == Stage.COLLECT_MASKED_VECTORS:
            return self.problem_of_vector(answer.get(Key.MASKED_PARAMETERS))
        return self.problem_of_keys(stage, answer)

    def problem_of_keys(self, stage: str, answer: ConfigRecord) -> str | None:
        """Check public keys, or key shares of clients of this round."""
        if stage == Stage.SETUP:
            try:
                for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2):
                    bytes_to_public_key(cast(bytes, answer[key]))
            except (KeyError, TypeError, ValueError, AttributeError):
                return "its message holds no public keys"
            return None
        owners, values = KEY_SHARES[stage]
        nodes, shares = answer.get(owners), answer.get(values)
        if not isinstance(nodes, list) or not isinstance(shares, list) or len(nodes) != len(shares):
            return "its key shares are malformed"
        known = {proxy.node_id for proxy, _ in self.asked}
        right = known.issuperset(nodes) and all(isinstance(share, bytes) for share in shares)
        return None if right else "its key shares are malformed"

    def problem_of_vector(self, parts: Any) -> str | None:
        """Check Flower's factor and our vector: whole numbers below the modulus."""
        if (
            not isinstance(parts, list)
            or len(parts) != 2
            or not all(isinstance(part, bytes) for part in parts)
        ):
            return "its message holds no masked vector"
        if len(parts[1]) > WORD * self.size + HEADER or len(parts[0]) > WORD + HEADER:
            return f"its masked vector has {len(parts[1])} bytes instead of {WORD * self.size}"
        try:
            arrays = decode(parts)
        except WireError as error:
            return str(error)
        if [array.shape for array in arrays] != [(1,), (self.size,)] or any(
            array.dtype != np.int64 for array in arrays
        ):
            return (
                f"its masked vector is {arrays[1].dtype}{arrays[1].shape} instead of"
                f" int64({self.size},)"
            )
        if any(
            array.min(initial=0) < 0 or array.max(initial=0) >= 2**MODULUS_BITS for array in arrays
        ):
            return "its masked vector holds numbers that are not below the modulus"
        return None

    def list_refused(self) -> list[dict[str, Any]]:
        """List the lost clients and the reasons, by partition, for results.jsonl."""
        lost = [
            (proxy.partition, self.reasons[proxy.node_id])
            for proxy, _ in self.asked
            if proxy.node_id in self.reasons
        ]
        return [{"partition": partition, "reason": reason} for partition, reason in sorted(lost)]


def count_bytes(message: Message) -> int:
    """Count the bytes of a message's arrays, and of the keys, shares and masked numbers in it."""
    arrays = sum(
        len(array.data)
        for record in message.content.array_records.values()
        for array in record.values()
    )
    values = [
        value for record in message.content.config_records.values() for value in record.values()
    ]
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return arrays + sum(len(part) for part in parts if isinstance(part, bytes))
