"""Clients of secure rounds that are lost, or that send something else than they should."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.app import Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.supercore.primitives.asymmetric import generate_key_pairs

from fedmirage.common.secagg.agreement import AGREE, DRAW, LOT, TAGS
from tests.support.inprocess import Intercept, node_id


def stage_of(reply: Message) -> str:
    """Which of the exchanges a client's reply belongs to."""
    if reply.has_error() or RECORD_KEY_CONFIGS not in reply.content.config_records:
        return ""
    keys = reply.content.config_records[RECORD_KEY_CONFIGS].keys()
    marks = {
        Key.PUBLIC_KEY_1: Stage.SETUP,
        LOT: DRAW,
        Key.DESTINATION_LIST: Stage.SHARE_KEYS,
        Key.MASKED_PARAMETERS: Stage.COLLECT_MASKED_VECTORS,
        TAGS: AGREE,
        Key.SHARE_LIST: Stage.UNMASK,
    }
    return next(stage for mark, stage in marks.items() if mark in keys)


def lose(partition: int, stage: str, times: int = 1) -> Intercept:
    """A client whose answers in one stage never arrive, so many times."""
    left = [times]

    def intercept(node: int, reply: Message) -> Message | None:
        if node == node_id(partition) and stage_of(reply) == stage and left[0]:
            left[0] -= 1
            return None
        return reply

    return intercept


def broken(change: Callable[[list[Any]], list[Any]]) -> Intercept:
    """Partition 1 sends another masked vector than its own."""

    def intercept(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == Stage.COLLECT_MASKED_VECTORS:
            record = reply.content.config_records[RECORD_KEY_CONFIGS]
            record[Key.MASKED_PARAMETERS] = change(record[Key.MASKED_PARAMETERS])  # type: ignore[arg-type]
        return reply

    return intercept


def array_bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


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
