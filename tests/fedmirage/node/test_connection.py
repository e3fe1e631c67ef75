"""The process that takes a node's tasks is watched over."""

import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedmirage.node import connection
from fedmirage.node.connection import TaskTaker
from tests.support.commands import wait_until


class Node:
    """A node whose tasks are taken by a program of the test's."""

    def __init__(self, program: str) -> None:
        self.codes: list[int] = []
        self.started: list[subprocess.Popen[bytes]] = []
        self.taker = TaskTaker("own", "forked", "adaptive", "127.0.0.1:1")
        self.taker.command = [sys.executable, "-I", "-S", "-c", program]
        self.taker.end = self.codes.append
        spawn = self.taker.spawn
        self.taker.spawn = lambda: self.started.append(spawn()) or self.started[-1]  # type: ignore[method-assign,func-returns-value]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    monkeypatch.setattr(connection, "GRACE", 0.01)


def test_one_that_was_killed_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "SHORT", 0.0)
    node = Node("import time; time.sleep(60)")
    node.taker.start()
    for count in (1, 2):
        wait_until(lambda: len(node.started) == count, 30, "a process")  # noqa: B023
        node.started[-1].send_signal(signal.SIGKILL)
    wait_until(lambda: len(node.started) == 3, 30, "a third process")
    assert node.started[-1].poll() is None
    assert caplog.text.count("ended with code -9; another one is started") == 2
    assert node.codes == []
    node.started[-1].kill()
    node.started[-1].wait()


def test_a_node_ends_if_nobody_stays_to_take_its_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node("raise SystemExit(4)")
    watching = threading.Thread(target=node.taker.watch, args=(node.taker.spawn(),))
    watching.start()
    watching.join(30)
    assert node.codes == [1]
    assert "ended with code 4 after 0 s; the node ends, because it could not answer" in caplog.text
