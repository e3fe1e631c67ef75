"""Clients that lie in a secure round: it costs them the round, or all the try, never the run."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.client.secagg import participant
from fedmirage.common.errors import FedmirageError
from fedmirage.common.secagg.keys import pack, unpack
from fedmirage.common.secagg.protocol import ADVERTISE, MASK, OPEN, SEALED, SHARE
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.secagg.shamir import SHARE as SHARE_SIZE
from fedmirage.common.secagg.shamir import create_shares
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE
from tests.support.runs import assert_same_bits, lines
from tests.support.secure_rounds import both, lose, spoil

SMALL = {**BASE, "eval_every": 1, "rounds": 1, "secagg": "on", "round_timeout": 0.5}
WIDTH = SecAggOn().width(int(BASE["clients"]))


def in_the_round(folder: Path) -> list[int]:
    (line,) = lines(folder)
    return [client["partition"] for client in line["clients"]]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("text", "message holds no 3 public keys"),
        (b"junk", "message holds no 3 public keys"),
        (bytes(96), "public keys are not proper ones"),
        (b"\xff" * 96, "public keys are not proper ones"),
        (b"\x09" * 96, "public keys are the same"),
    ],
)
def test_malformed_keys_cost_their_sender_the_round(tmp_path: Path, keys: Any, reason: str) -> None:
    """And nobody else, though the others would notice."""
    run_in_process(tmp_path, spoil(1, ADVERTISE, lambda _: keys), **SMALL, retries=0)
    (refused,) = lines(tmp_path)[0]["refused"]
    assert reason in refused["reason"]
    assert in_the_round(tmp_path) == [0, 2, 3]


def test_the_same_key_from_two_clients_costs_both_the_round(tmp_path: Path) -> None:
    """Clients 1 and 3 of five have one key between them: three are left, where four are needed."""
    seen: list[bytes] = []

    def copy(keys: bytes) -> bytes:
        seen.append(keys)
        return seen[0][:32] + keys[32:]

    two = both(spoil(1, ADVERTISE, copy, 1), spoil(3, ADVERTISE, copy, 1))
    run_in_process(tmp_path, two, **{**SMALL, "clients": 5, "secagg": "on(threshold=0.55)"})
    assert in_the_round(tmp_path) == [0, 2, 4]
    refused = lines(tmp_path)[0]["refused"]
    assert [entry["partition"] for entry in refused] == [1, 3]
    assert "its public keys are also those of another client" in refused[0]["reason"]


@pytest.mark.parametrize("receivers", [1, 2, 3])
def test_key_shares_that_cannot_be_opened_cost_their_sender_the_round(
    tmp_path: Path, receivers: int
) -> None:
    """Who gets them says so. If it is one client only, the round ends without that one; if there
    are more, the next try is without the sender."""

    def junk(sealed: bytes) -> bytes:
        return os.urandom(receivers * SEALED) + sealed[receivers * SEALED :]

    run_in_process(tmp_path, spoil(1, SHARE, junk), **SMALL)
    assert in_the_round(tmp_path) == ([1, 2, 3] if receivers == 1 else [0, 2, 3])
    assert len(lines(tmp_path, "retry")) == (receivers > 1)


def test_a_client_that_blames_others_is_believed_once(tmp_path: Path) -> None:
    """Client 0 says of one after the other that their key shares are malformed. Then it is left out
    itself. All six replies are needed here, so every try fails."""
    blamed: list[int] = []
    true = participant.Participant.open_shares

    def lie(self: Any, this: Any) -> bytes:
        if self.own == 0:
            blamed.append(this.others(0)[0])
            raise participant.RefusalError("it lies", names=blamed[-1:])
        return true(self, this)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(participant.Participant, "open_shares", lie)
        settings = {**SMALL, "clients": 6, "secagg": "on(threshold=0.6)", "min_replies": 6}
        with pytest.raises(FedmirageError, match="secure aggregation was left with"):
            run_in_process(tmp_path, **settings, retries=2)
    assert blamed == [1, 2]


def reshare(spoiled: Any, pairs: int) -> Any:
    """Deal shares as a cheat does: client after client shares two secrets, its own mask's first."""
    count = [0]

    def share(secret: bytes, threshold: int, number: int) -> list[bytes]:
        count[0] += 1
        shares = create_shares(secret, threshold, number)
        return spoiled(shares) if count[0] == pairs else shares

    return share


SPOILED = [
    lambda shares: [bytes(SHARE_SIZE)] * len(shares),
    lambda shares: create_shares(os.urandom(32), 3, len(shares)),
    lambda shares: [b"\xff" * SHARE_SIZE] * len(shares),
]


@pytest.mark.parametrize("spoiled", SPOILED)
@pytest.mark.parametrize("lost", [True, False])
def test_shares_of_no_key_end_the_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: Any, lost: bool
) -> None:
    """Client 1 shares another key than its own, once: the masking key, which counts if it is lost,
    or that of its own mask. The public key shows it. Shares that are none are seen by all."""
    share = reshare(spoiled, 4 if lost else 3)
    monkeypatch.setattr(participant.shamir, "create_shares", share)
    run_in_process(tmp_path, lose(1, MASK) if lost else None, **SMALL)
    (retry,) = lines(tmp_path, "retry")
    assert re.search("the key shares of client 1 (do not give the key|are malf)", retry["reason"])
    seen = spoiled is SPOILED[2]
    assert in_the_round(tmp_path) == ([0, 2, 3] if lost or seen else [0, 1, 2, 3])


@pytest.mark.parametrize(
    "change",
    [lambda shares: os.urandom(len(shares)), lambda shares: bytes(len(shares)), lambda s: s[::-1]],
)
def test_false_shares_of_the_sum_are_found(tmp_path: Path, change: Any) -> None:
    """Three of four are enough, and the public keys show which."""
    run_in_process(tmp_path / "spoiled", spoil(0, OPEN, change), **SMALL, retries=0)
    run_in_process(tmp_path / "whole", **SMALL)
    assert_same_bits(tmp_path / "spoiled", tmp_path / "whole")


# Sums that cannot be


def lie(trained: float, share: float) -> Any:
    """Client 0 adds something to the count of clients, and to the share of examples, once."""
    unit = 2.0 ** (20 - 40)  # the value of one step of a wide number's first element

    def change(vector: bytes) -> bytes:
        numbers = unpack(vector, WIDTH)
        numbers[:2] += np.rint(np.array([trained, share]) / unit).astype(np.int64)
        return pack(numbers, WIDTH)

    return spoil(0, MASK, change, times=1)


@pytest.mark.parametrize(
    ("trained", "share", "reason"),
    [
        (0.0, -8e-4, r"says that 4 clients have -\d+\.?\d* examples together"),
        (0.0, 4.5, "which is impossible if each has 1 to 65536"),
        (4.0, 0.0, "says that 8 of 4 clients trained"),
        (-5.0, 0.0, "says that -1 of 4 clients trained"),
        (-0.5, 0.0, r"says that 3\.5 of 4 clients trained"),
        (-4.0, 0.0, "says that 0 clients have"),
    ],
)
def test_false_counts_end_the_try_and_not_the_run(
    tmp_path: Path, trained: float, share: float, reason: str
) -> None:
    """The mean update is the sum divided by the share of examples: whoever makes that small, or
    negative, multiplies everybody's update. All have 47 of 65,536 examples."""
    run_in_process(tmp_path / "honest", **SMALL)
    run_in_process(tmp_path / "lied", lie(trained, share), **SMALL)
    (retry,) = lines(tmp_path / "lied", "retry")
    assert re.search(reason, retry["reason"])
    assert_same_bits(tmp_path / "lied", tmp_path / "honest")
