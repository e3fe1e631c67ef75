"""A reply with local noise: it is given once per round, and given again as it was."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.client.dp import REPLY, DpReply, Reply
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.dp.settings import CentralDp, DpOn, LocalDp
from fedmirage.common.errors import FedmirageError
from fedmirage.common.wire.payload import SHARED
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE
from tests.support.runs import lines

LOCAL, CENTRAL = LocalDp(clip=1, noise=2), CentralDp(clip=1, noise=2)


def release(folder: Path, number: int, dp: DpOn = LOCAL) -> DpReply:
    return DpReply(dp, folder, folder / "releases.jsonl", "token", number)


def reply(*arrays: np.ndarray) -> Reply:
    return Reply({SHARED: list(arrays)}, 1, {})


def test_the_same_round_gets_the_same_reply(tmp_path: Path) -> None:
    arrays = [np.arange(3, dtype=np.float32), np.array(2.5)]
    assert release(tmp_path, 4).find_earlier() is None
    release(tmp_path, 4).keep(reply(*arrays))
    again = release(tmp_path, 4).find_earlier()
    assert again is not None
    assert again.examples == 1
    assert [one.tobytes() for one in again.sections[SHARED]] == [one.tobytes() for one in arrays]
    assert release(tmp_path, 5).find_earlier() is None
    assert release(tmp_path, 4, CENTRAL).find_earlier() is None


def test_an_earlier_round_is_refused(tmp_path: Path) -> None:
    release(tmp_path, 4).keep(reply(np.zeros(1)))
    with pytest.raises(FedmirageError, match="has answered round 4 already; an answer to round 3"):
        release(tmp_path, 3).find_earlier()


def test_a_damaged_reply_is_not_made_anew(tmp_path: Path) -> None:
    release(tmp_path, 4).keep(reply(np.zeros(1)))
    (tmp_path / REPLY).write_bytes(b"not a reply")
    with pytest.raises(FedmirageError, match="a new one would carry new noise"):
        release(tmp_path, 4).find_earlier()


@pytest.mark.parametrize(("dp", "counted"), [(LOCAL, 1), (CENTRAL, 2)])
def test_local_replies_count_once_and_central_ones_each_time(
    tmp_path: Path, dp: DpOn, counted: int
) -> None:
    """The server of a central run adds fresh noise each time that it gets the update."""
    for _ in range(2):
        release(tmp_path, 1, dp).write_down()
    entries = Ledger(tmp_path / "releases.jsonl").entries
    assert entries == [{"run": "token", "round": 1, "multiplier": 1.0}] * counted


def test_a_reply_is_counted_before_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first node is killed after it has stored its reply, and before it has counted it."""
    left, write_down = [1], DpReply.write_down

    def count(self: DpReply) -> None:
        if left[0]:
            left[0] -= 1
            raise FedmirageError("killed")
        write_down(self)

    monkeypatch.setattr(DpReply, "write_down", count)
    settings = {**BASE, "rounds": 1, "dp": "local(clip=1, noise=2)"}
    run_in_process(tmp_path, **settings, min_replies=settings["clients"])
    (retry,) = lines(tmp_path, "retry")
    assert "killed" in retry["reason"]
    ledgers = sorted(tmp_path.rglob("client-*-releases.jsonl"))
    assert [len(Ledger(path).entries) for path in ledgers] == [1] * settings["clients"]
