"""What a client keeps in files travels with its messages, and comes back as it has changed."""

from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedmirage.common.errors import TRACEBACK
from fedmirage.common.memory import Memory
from fedmirage.runtimes.cluster.belongings import (
    apply_changes,
    empty,
    find_changes,
    pack_files,
    rename,
    write_files,
)

TOKEN, PARENT = "0123456789abcdef", "fedcba9876543210"


def message(**told: str | int) -> Message:
    return Message(RecordDict({"config": ConfigRecord(dict(told))}), 1, "train")


def remember(folder: Path, token: str, number: int, client: int = 3, keep: bool = False) -> None:
    memory = Memory(folder / "memory" / token / f"client-{client:05d}", number, keep)
    memory.put("a.b", [np.full(2, number, dtype=np.float32)])
    memory.close()


def recall(folder: Path, number: int) -> float:
    memory = Memory(folder / "memory" / TOKEN / "client-00003", number)
    found = memory.get("a.b")
    return float(found[0][0]) if found else -1.0


@pytest.mark.parametrize("keep", [False, True])
def test_many_rounds_on_changing_hosts_leave_what_one_host_would(
    tmp_path: Path, keep: bool
) -> None:
    run, host, plain = tmp_path / "run", tmp_path / "host", tmp_path / "plain"
    host.mkdir()
    for number in range(1, 8):
        before = write_files(host, pack_files(run, message(token=TOKEN), 3))
        assert recall(host, number) == (number - 1 or -1)
        remember(host, TOKEN, number, keep=keep)
        apply_changes(run, find_changes(host, before))
        empty(host)
        remember(plain, TOKEN, number, keep=keep)
        left = {path.relative_to(run): path.read_bytes() for path in run.rglob("*.*")}
        assert left == {path.relative_to(plain): path.read_bytes() for path in plain.rglob("*.*")}
    assert not list(host.iterdir())
    assert all(path.stat().st_mode & 0o77 == 0 for path in run.rglob("*.safetensors"))


def test_only_files_that_this_client_may_need_travel(tmp_path: Path) -> None:
    for number in range(1, 9):
        remember(tmp_path, TOKEN, number, keep=True)
        remember(tmp_path, PARENT, number, keep=True)
    remember(tmp_path, TOKEN, 8, client=4)
    notes = tmp_path / "memory" / "secagg" / "00003" / "key.json"
    notes.parent.mkdir(parents=True)
    notes.write_text("{}")
    (tmp_path / "memory" / "client-00003-releases.jsonl").write_text("{}")
    (tmp_path / "memory" / "client-00004-releases.jsonl").write_text("{}")
    found = pack_files(tmp_path, message(token=TOKEN, parent=f"{PARENT}@5"), 3)
    rounds = [f"memory/{TOKEN}/client-00003/round-{n:05d}.safetensors" for n in (6, 7, 8)]
    rounds += [f"memory/{PARENT}/client-00003/round-{n:05d}.safetensors" for n in (3, 4, 5)]
    others = ["memory/client-00003-releases.jsonl", "memory/secagg/00003/key.json"]
    assert sorted(found) == sorted(rounds + others)


def test_a_reply_names_the_file_of_a_traceback_where_it_will_be(tmp_path: Path) -> None:
    reply = message(error="it raised X (the first traceback is in /tmp/there/traceback.txt)", n=1)
    rename(reply, "/tmp/there", "/runs/one")
    told = reply.content.config_records["config"]
    assert told == {
        "error": "it raised X (the first traceback is in /runs/one/traceback.txt)",
        "n": 1,
    }
    host, run = tmp_path / "host", tmp_path / "run"
    for folder in (host, run):
        folder.mkdir()
    for text in ("first", "second"):
        before = write_files(host, {})
        (host / TRACEBACK).write_text(text)
        apply_changes(run, find_changes(host, before))
        empty(host)
    assert (run / TRACEBACK).read_text() == "first"
