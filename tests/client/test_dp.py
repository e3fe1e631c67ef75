"""A reply with local noise: it is given once per round, and given again as it was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.client import client as client_module
from fedmirage.client.dp import REPLY, Reply, find_reply, keep_reply, write_down
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.dp.settings import CentralDp, LocalDp
from fedmirage.common.errors import FedmirageError
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE
from tests.support.runs import lines


def test_the_same_round_gets_the_same_reply(tmp_path: Path) -> None:
    arrays = [np.arange(3, dtype=np.float32), np.array(2.5)]
    assert find_reply(tmp_path, 4) is None
    keep_reply(tmp_path, 4, Reply(arrays, 1))
    again = find_reply(tmp_path, 4)
    assert again is not None
    assert again.examples == 1
    assert [array.tobytes() for array in again.shared] == [array.tobytes() for array in arrays]
    assert find_reply(tmp_path, 5) is None


def test_an_earlier_round_is_refused(tmp_path: Path) -> None:
    keep_reply(tmp_path, 4, Reply([np.zeros(1)], 1))
    with pytest.raises(FedmirageError, match="has answered round 4 already; an answer to round 3"):
        find_reply(tmp_path, 3)


def test_a_damaged_reply_is_not_made_anew(tmp_path: Path) -> None:
    keep_reply(tmp_path, 4, Reply([np.zeros(1)], 1))
    (tmp_path / REPLY).write_bytes(b"not a reply")
    with pytest.raises(FedmirageError, match="a new one would carry new noise"):
        find_reply(tmp_path, 4)


def test_local_replies_count_once_and_central_ones_each_time(tmp_path: Path) -> None:
    """The server of a central run adds fresh noise each time that it gets the update."""
    for dp, counted in ((LocalDp(clip=1, noise=2), 1), (CentralDp(clip=1, noise=2), 2)):
        ledger = Ledger(None)
        for _ in range(2):
            write_down(dp, ledger, "token", 1)
        assert ledger.entries == [{"run": "token", "round": 1, "multiplier": 1.0}] * counted


def test_a_reply_is_counted_before_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first node is killed after it has stored its reply, and before it has counted it."""
    left = [1]

    def count(*arguments: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise FedmirageError("killed")
        write_down(*arguments)

    monkeypatch.setattr(client_module, "write_down", count)
    settings = {**BASE, "rounds": 1, "dp": "local(clip=1, noise=2)"}
    run_in_process(tmp_path, **settings, min_replies=settings["clients"])
    (retry,) = lines(tmp_path, "retry")
    assert "killed" in retry["reason"]
    ledgers = sorted(tmp_path.rglob("client-*-releases.jsonl"))
    assert [len(Ledger(path).entries) for path in ledgers] == [1] * settings["clients"]
