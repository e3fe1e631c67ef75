"""Checks of the clients' replies in a secure round, before Flower's workflow sees them."""

from collections import Counter
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.agreement import LOT, SEALED_LOT
from fedmirage.common.secagg.circle import SEAL, seal_lot
from fedmirage.common.secagg.keys import read_public_key
from fedmirage.common.secagg.masks import WORD
from fedmirage.common.secagg.settings import MODULUS_BITS
from fedmirage.common.wire.payload import decode
from fedmirage.server.messages.replies import HEADER


def problem_of_keys(answer: ConfigRecord) -> str | None:
    """Check that a client has sent two different public keys."""
    try:
        keys = {read_public_key(answer.get(key)) for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)}
    except WireError as error:
        return str(error)
    return None if len(keys) == 2 else "its two public keys are the same"


def problem_of_sealed_lot(answer: ConfigRecord, wanted: bool) -> str | None:
    """Check that a client has bound itself to a lot, if the seats are drawn."""
    sealed = answer.get(SEALED_LOT)
    right = not wanted or (isinstance(sealed, bytes) and len(sealed) == SEAL)
    return None if right else "its message holds no sealed lot"


def problem_of_lot(answer: ConfigRecord, sealed: bytes) -> str | None:
    """Check that a client's lot is the one that it was bound to."""
    lot = answer.get(LOT)
    right = isinstance(lot, bytes) and seal_lot(lot) == sealed
    return None if right else "its lot is not the one that it has sealed"


def find_senders_of_equal_keys(replies: dict[int, Message]) -> list[int]:
    """Find clients that have sent the same key as another.

    Keys are drawn afresh in every try, and nobody has seen the others' yet: none of them is a
    victim of the other.
    """
    keys = {
        node: [read_public_key(answer[key]) for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)]
        for node, reply in replies.items()
        for answer in [reply.content.config_records[RECORD_KEY_CONFIGS]]
    }
    counted = Counter(key for pair in keys.values() for key in pair)
    return [node for node, pair in keys.items() if any(counted[key] > 1 for key in pair)]


def problem_of_vector(parts: Any, size: int) -> str | None:
    """Check Flower's factor and our vector: whole numbers below the modulus."""
    if (
        not isinstance(parts, list)
        or len(parts) != 2
        or not all(isinstance(part, bytes) for part in parts)
    ):
        return "its message holds no masked vector"
    if len(parts[1]) > WORD * size + HEADER or len(parts[0]) > WORD + HEADER:
        return f"its masked vector has {len(parts[1])} bytes instead of {WORD * size}"
    try:
        arrays = decode(parts)
    except WireError as error:
        return str(error)
    if [array.shape for array in arrays] != [(1,), (size,)] or any(
        array.dtype != np.int64 for array in arrays
    ):
        return f"its masked vector is {arrays[1].dtype}{arrays[1].shape} instead of int64({size},)"
    if any(array.min(initial=0) < 0 or array.max(initial=0) >= 2**MODULUS_BITS for array in arrays):
        return "its masked vector holds numbers that are not below the modulus"
    return None
