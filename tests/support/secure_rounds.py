"""Clients of secure rounds that are lost, or that send something else than they should."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.app import Message
from flwr.supercore.primitives.asymmetric import generate_key_pairs

from fedmirage.common.secagg.protocol import ADVERTISE, AGREE, MASK, OPEN, RECORD, SHARE
from tests.support.inprocess import Intercept, node_id

MARKS = {"keys": ADVERTISE, "sealed": SHARE, "vector": MASK, "tags": AGREE, "shares": OPEN}


def stage_of(reply: Message) -> str:
    """Which of the exchanges a client's reply belongs to."""
    if reply.has_error() or RECORD not in reply.content.config_records:
        return ""
    found = reply.content.config_records[RECORD].keys() & MARKS.keys()
    return MARKS[found.pop()]


def lose(partition: int, stage: str, times: int = 1) -> Intercept:
    """A client whose answers in one stage never arrive, so many times."""
    return spoil(partition, stage, lambda _: None, times)


def spoil(
    partition: int, stage: str, change: Callable[[Any], Any], times: int = 10**6
) -> Intercept:
    """A client that changes what it sends in one stage, so many times; None loses its answer."""
    left = [times]
    names = {stage: name for name, stage in MARKS.items()}

    def intercept(node: int, reply: Message) -> Message | None:
        if node != node_id(partition) or stage_of(reply) != stage or not left[0]:
            return reply
        left[0] -= 1
        record = reply.content.config_records[RECORD]
        changed = change(record[names[stage]])
        if changed is None:
            return None
        record[names[stage]] = changed
        return reply

    return intercept


def both(*intercepts: Intercept) -> Intercept:
    """Several clients at once."""

    def intercept(node: int, reply: Message) -> Message | None:
        for one in intercepts:
            if one(node, reply) is None:
                return None
        return reply

    return intercept


def exchange_long_term_keys(folder: Path, clients: int) -> dict[int, dict[str, str]]:
    """Give every node a key of its own and everybody's public keys; return their configurations."""
    for who in range(clients):
        private, public = generate_key_pairs()
        (folder / f"{who}").write_bytes(
            private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        )
        (folder / f"{who}.pub").write_bytes(
            public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        )
    return {
        who: {"secagg-key": str(folder / f"{who}"), "secagg-peers": str(folder)}
        for who in range(clients)
    }
