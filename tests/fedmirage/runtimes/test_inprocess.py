"""The inprocess runtime: helpers change nothing about the numbers, and may die."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict

from fedmirage.client.app import make_app
from fedmirage.common.settings.config import configure
from fedmirage.runtimes import inprocess
from fedmirage.runtimes.grid import node_id
from fedmirage.runtimes.inprocess import Helper, LocalGrid, run_in_process
from fedmirage.runtimes.parcels import Load, QueuedMessage
from fedmirage.server.messages.replies import exchange
from tests.support.hanging import hang_once
from tests.support.inprocess import run_in_process as run_alone
from tests.support.runs import SMALL, assert_same_bits, lines, without_times

ROUNDS = 10  # a ready helper gets a message in most of them


@pytest.fixture
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers have loaded everything when a run begins, so that it can be short."""
    add = LocalGrid.add

    def add_ready(grid: LocalGrid, worker: Helper) -> None:
        worker.await_start()
        add(grid, worker)

    monkeypatch.setattr(LocalGrid, "add", add_ready)


@pytest.mark.usefixtures("_ready")
@pytest.mark.parametrize("settings", [{"methods": "scaffold"}, {"secagg": "on"}])
def test_helpers_give_the_same_bits(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """State between the messages of a secure round travels to whichever process answers."""
    helped: list[QueuedMessage] = []
    send = Helper.send
    monkeypatch.setattr(Helper, "send", lambda *_: helped.append(_[1]) or send(*_))
    settings = {**SMALL, **settings, "rounds": ROUNDS}
    run_in_process(configure({**settings, "out": str(tmp_path / "helped")}), 2)
    run_alone(tmp_path / "alone", **settings)
    assert helped, "the helper was never ready; give the run more rounds"
    assert_same_bits(tmp_path / "helped", tmp_path / "alone")
    assert without_times(tmp_path / "helped") == without_times(tmp_path / "alone")


@pytest.mark.usefixtures("_ready")
def test_a_helper_that_dies_is_a_failed_client_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[Message] = []
    send = Helper.send

    def die(helper: Helper, job: QueuedMessage, context: Any) -> None:
        if job.message.metadata.message_type == "train" and not died:
            helper.process.kill()
            helper.process.join()
            died.append(job.message)
        send(helper, job, context)

    monkeypatch.setattr(Helper, "send", die)
    run_in_process(configure({**SMALL, "rounds": ROUNDS, "out": str(tmp_path)}), 2)
    assert len(died) == 1
    refused = [entry for line in lines(tmp_path) for entry in line["refused"]]
    assert [entry["reason"] for entry in refused] == ["it failed: its process ended with code -9"]
    assert len(lines(tmp_path)) == ROUNDS


def test_a_helper_that_starts_too_slowly_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/fedmirage/runtimes/test_grid.py has the other one that is started later."""
    monkeypatch.setattr(inprocess, "START", 0.0)
    run_in_process(configure({**SMALL, "out": str(tmp_path)}), 2)
    (note,) = lines(tmp_path, "note")
    said = "a process for clients could not start (it has not started within 0 s)"
    assert note["text"].startswith(said)
    noted = [f"round {note['round']}: {note['text']}"]
    assert lines(tmp_path, "summary")[0]["notes"] == noted


@pytest.mark.parametrize(("where", "rounds"), [("helper", ROUNDS), ("server", 3)])
def test_a_client_that_hangs_is_missing_and_the_run_goes_on(
    tmp_path: Path, where: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once per run, in a helper, or in the thread of the server's process, which has none then.

    A helper may have had a second message, which nobody else could begin. Without helpers nobody
    answers in that round, which is therefore tried again.
    """
    for name, value in hang_once(tmp_path, helper=where == "helper").items():
        monkeypatch.setenv(name, value)
    settings = {**SMALL, "rounds": rounds, "round_timeout": 5.0, "out": str(tmp_path / "run")}
    processes = 2 if where == "helper" else 1
    script = (
        "from fedmirage.common.settings.config import configure\n"
        "from fedmirage.runtimes.inprocess import LocalGrid, run_in_process\n"
        "add = LocalGrid.add\n"
        "LocalGrid.add = lambda grid, helper: (helper.await_start(), add(grid, helper))\n"
        f"if __name__ == '__main__': run_in_process(configure({settings!r}), {processes})\n"
    )
    (tmp_path / "go.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "go.py")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused = [entry for line in lines(tmp_path / "run") for entry in line["refused"]]
    assert (tmp_path / "hangs").exists()  # some client did
    said = "no answer within 5 s (round-timeout)"
    if where == "helper":
        assert [entry["reason"] for entry in refused] in ([said], [said, said])
    else:
        (again,) = lines(tmp_path / "run", "retry")
        assert again["reason"].endswith(f"clients 0 to 3: {said}")
    assert [len(line["clients"]) for line in lines(tmp_path / "run")[-1:]] == [4]
    assert len(lines(tmp_path / "run")) == rounds


def test_the_server_keeps_its_own_number_of_threads(tmp_path: Path) -> None:
    config = configure({**SMALL, "out": str(tmp_path), "threads": 1})
    grid = LocalGrid(make_app(config, tmp_path / "memory"), config.clients)
    torch.set_num_threads(2)
    list(exchange(grid, [Message(RecordDict(), node_id(0), "query")], 60))
    assert torch.get_num_threads() == 2


def test_a_message_whose_time_is_up_is_not_begun(tmp_path: Path) -> None:
    config = configure({**SMALL, "out": str(tmp_path)})
    grid = LocalGrid(make_app(config, tmp_path / "memory"), config.clients)
    late = Message(RecordDict(), node_id(0), "query", ttl=60)
    late.metadata.created_at -= 61
    numbers = list(grid.push_messages([late]))
    assert not grid.await_messages(numbers, 0.1)
    assert list(grid.pull_messages(numbers)) == []


def test_a_helper_takes_a_message_while_it_sends_a_large_reply(tmp_path: Path) -> None:
    """Both are larger than a pipe holds, so that nobody may wait for the other to read first."""
    helper = Helper(configure({**SMALL, "out": str(tmp_path)}), tmp_path / "memory")
    ended = threading.Timer(60, helper.process.kill)  # so that the test fails and does not hang
    ended.start()
    helper.await_start()
    state = RecordDict({"large": ArrayRecord({"x": Array("", (), "", bytes(2_000_000))})})
    load, partitions = Load([]), range(2)
    for partition in partitions:
        message = Message(RecordDict(), node_id(partition), "query", ttl=60)
        message.metadata.__dict__["_message_id"] = str(partition)
        helper.send(
            QueuedMessage(message, lambda: load), Context(1, node_id(partition), {}, state, {})
        )
    replies = [helper.receive()[0] for _ in partitions]
    ended.cancel()
    helper.stop()
    assert [reply.metadata.reply_to_message_id for reply in replies] == ["0", "1"]
