"""Clients that lie in a secure round: it costs them the round, or all the try, never the run."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.client.mod import secaggplus_mod
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from fedmirage.common.secagg.settings import MODULUS_BITS
from fedmirage.common.secagg.shamir import create_shares
from fedmirage.common.secagg.vector import SecureVector
from fedmirage.common.wire.payload import decode
from tests.support.inprocess import node_id, run_in_process
from tests.support.pairs import BASE
from tests.support.runs import assert_same_bits, lines
from tests.support.secure_rounds import array_bytes, broken, lose, stage_of

SMALL = {**BASE, "eval_every": 1, "rounds": 1, "secagg": "on"}


def in_the_round(folder: Path) -> list[int]:
    (line,) = lines(folder)
    return [client["partition"] for client in line["clients"]]


@pytest.mark.parametrize(
    ("stage", "key", "value", "reason"),
    [
        (Stage.SETUP, Key.PUBLIC_KEY_1, "text", "message holds no public keys"),
        (Stage.SETUP, Key.PUBLIC_KEY_2, b"junk", "message holds no public keys"),
        (Stage.SETUP, Key.PUBLIC_KEY_1, bytes(32), "public keys are not proper ones"),
        (Stage.SETUP, Key.PUBLIC_KEY_2, b"\xff" * 32, "public keys are not proper ones"),
        (Stage.SHARE_KEYS, Key.DESTINATION_LIST, [1, 2, 3], "key shares are malformed"),
        (Stage.SHARE_KEYS, Key.DESTINATION_LIST, [node_id(0)] * 3, "key shares are malformed"),
        (Stage.SHARE_KEYS, Key.CIPHERTEXT_LIST, [b"x"], "key shares are malformed"),
    ],
)
def test_malformed_keys_cost_their_sender_the_round(
    tmp_path: Path, stage: str, key: str, value: Any, reason: str
) -> None:
    """And nobody else, though the others would notice."""

    def spoil(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == stage:
            reply.content.config_records[RECORD_KEY_CONFIGS][key] = value
        return reply

    run_in_process(tmp_path, spoil, **SMALL)
    (retry,) = lines(tmp_path, "retry")
    assert f"client 1: its {reason}" in retry["reason"]
    assert in_the_round(tmp_path) == [0, 2, 3]


def test_two_equal_keys_cost_their_sender_the_round(tmp_path: Path) -> None:
    def spoil(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == Stage.SETUP:
            record = reply.content.config_records[RECORD_KEY_CONFIGS]
            record[Key.PUBLIC_KEY_2] = record[Key.PUBLIC_KEY_1]
        return reply

    run_in_process(tmp_path, spoil, **SMALL)
    (retry,) = lines(tmp_path, "retry")
    assert "client 1: its two public keys are the same" in retry["reason"]
    assert in_the_round(tmp_path) == [0, 2, 3]


def test_the_same_key_from_two_clients_costs_both_the_round(tmp_path: Path) -> None:
    """Clients 1 and 3 of five have one key between them."""
    seen: list[Any] = []

    def spoil(node: int, reply: Message) -> Message:
        if node in (node_id(1), node_id(3)) and stage_of(reply) == Stage.SETUP:
            record = reply.content.config_records[RECORD_KEY_CONFIGS]
            seen.append(record[Key.PUBLIC_KEY_1])
            record[Key.PUBLIC_KEY_1] = seen[0]
        return reply

    run_in_process(tmp_path, spoil, **{**SMALL, "clients": 5})
    (retry,) = lines(tmp_path, "retry")
    assert "clients 1, 3: its public keys are also those of another client" in retry["reason"]
    assert in_the_round(tmp_path) == [0, 2, 4]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda share: share + b"x", "secure aggregation failed while opening the sum"),
        (lambda share: bytes(4) + share[4:], "secure aggregation failed while opening the sum"),
        (lambda share: share[:4] + bytes(33), "numbers that 3 clients cannot have sent"),
    ],
)
def test_shares_of_no_key_end_the_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any, reason: str
) -> None:
    """Only when a client is lost do the others' shares show what it has really shared: here too
    many bytes, a share of no point, or shares of another key than its own. The others have begun
    to open the round without it, and open it for nobody else: it cannot come back."""
    left = [2 * SMALL["clients"]]  # every client shares two secrets

    def share(secret: bytes, threshold: int, number: int) -> list[bytes]:
        left[0] -= 1
        shares = create_shares(secret, threshold, number)
        is_key = left[0] % 2 == 0
        return [spoil(part) for part in shares] if is_key and left[0] >= 0 else shares

    monkeypatch.setattr(import_module(secaggplus_mod.__module__), "create_shares", share)
    lost = lose(1, Stage.COLLECT_MASKED_VECTORS)
    run_in_process(tmp_path, lost, **SMALL, round_timeout=0.5)
    (retry,) = lines(tmp_path, "retry")
    assert reason in retry["reason"]
    assert in_the_round(tmp_path) == [0, 2, 3]


# Sums that cannot be


def lie(trained: float, share: float) -> Callable[..., np.ndarray]:
    """The encoding of clients of which the first says something else of its examples, once."""
    honest, left = SecureVector.encode, [1]

    def encode(self: SecureVector, *arguments: Any) -> np.ndarray:
        vector = honest(self, *arguments)
        if left[0]:
            left[0] -= 1
            vector[:2], vector[self.wide : self.wide + 2] = self._split(np.array([trained, share]))
        return vector

    return encode


@pytest.mark.parametrize(
    ("trained", "share", "reason"),
    [
        (1.0, -6e-4, r"says that 4 clients have -4\.\d+ examples together"),
        (1.0, -5.1e-4, r"says that 4 clients have 1\.\d+ examples together"),
        (1.0, 4.5, "which is impossible if each has 1 to 65536"),
        (5.0, 1e-4, "says that 8 of 4 clients trained"),
        (-4.0, 1e-4, "says that -1 of 4 clients trained"),
        (0.5, 1e-4, r"says that 3\.5 of 4 clients trained"),
        (-3.0, 1e-4, "says that 0 clients have"),
    ],
)
def test_false_counts_end_the_try_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: float, share: float, reason: str
) -> None:
    """The mean update is the sum divided by the share of examples: whoever makes that small, or
    negative, multiplies everybody's update. The other three have 35 of 65,536 examples."""
    run_in_process(tmp_path / "honest", **SMALL)
    monkeypatch.setattr(SecureVector, "encode", lie(trained, share))
    run_in_process(tmp_path / "lied", **SMALL)
    (retry,) = lines(tmp_path / "lied", "retry")
    assert re.search(reason, retry["reason"])
    assert_same_bits(tmp_path / "lied", tmp_path / "honest")


def test_a_false_factor_ends_the_try(tmp_path: Path) -> None:
    """Flower divides by the sum of the clients' factors, which are masked like the rest: a client
    that changes its own scales everybody's numbers."""
    left = [1]

    def change(parts: list[bytes]) -> list[bytes]:
        (factor,) = decode(parts[:1])
        left[0] -= 1
        return [array_bytes((factor + 2**40) % 2**MODULUS_BITS), parts[1]]

    def once(node: int, reply: Message) -> Message | None:
        return broken(change)(node, reply) if left[0] else reply

    run_in_process(tmp_path / "lied", once, **SMALL)
    run_in_process(tmp_path / "honest", **SMALL)
    (retry,) = lines(tmp_path / "lied", "retry")
    assert "holds numbers that 4 clients cannot have sent" in retry["reason"]
    assert_same_bits(tmp_path / "lied", tmp_path / "honest")
