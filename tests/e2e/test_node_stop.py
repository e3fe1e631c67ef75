"""A node that is stopped by Ctrl-C at a bad moment ends soon, and leaves nothing behind."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.runtimes.grpc import Federation, free_addresses
from tests.support.commands import command, heed_signals, kill, processes, wait_until

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "rounds": 1,
    "local_steps": 100_000,
    "batch_size": 16,
    "clients": 1,
}
SOON = 10.0  # seconds; an idle machine needs half of them
LOADED = 4  # how many times slower a loaded machine may be


def start_node(home: Path) -> "subprocess.Popen[str]":
    """Start a node as a terminal would: its processes are a group, which gets Ctrl-C.

    Nobody listens at the address of its SuperLink.
    """
    superlink, tasks = free_addresses(2)
    arguments = ["--insecure", "--superlink", superlink, "--clientappio-api-address", tasks]
    arguments += ["--node-config", "partition-id=0 num-partitions=1"]
    return subprocess.Popen(
        command("supernode", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "FLWR_HOME": str(home)},
        start_new_session=True,
        preexec_fn=heed_signals,
    )


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A FLWR_HOME by which the node's processes are known; none of them outlives the test."""
    yield tmp_path / "node"
    for process in processes(f"FLWR_HOME={tmp_path / 'node'}"):
        kill(process)


@pytest.mark.parametrize("trains", [False, True])
def test_a_node_ends_though_its_superlink_does_not_answer(tmp_path: Path, trains: bool) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with Federation(tmp_path, logs, verbose=False) as federation:
        federation.start(configure(SETTINGS), tmp_path / "memory")
        if trains:
            federation.submit(configure(SETTINGS | {"out": str(tmp_path / "run")}))
            wait_until(lambda: len(of_node(tmp_path)) >= 4, 120, "a task beside the other three")
        else:
            log = logs / "superlink.log"
            wait_until(lambda: "Fleet.ActivateNode" in log.read_text(), 120, "a connection")
        federation.processes["superlink"].send_signal(signal.SIGSTOP)
        time.sleep(3)  # a request is under way by then
        node = federation.processes["supernode-0"]
        os.killpg(node.pid, signal.SIGINT)
        node.wait(SOON * LOADED)
        wait_until(lambda: of_node(tmp_path) == [], SOON, "the end of all of its processes")
    said = (logs / "supernode-0.log").read_text()
    assert "SuperNode terminated gracefully." in said
    assert "Traceback" not in said


def of_node(home: Path) -> list[int]:
    """Find the processes of a node: itself, what takes its tasks, the template, and tasks."""
    return [*({*processes("fedmirage.node.")} & {*processes(f"FLWR_HOME={home}")})]


@pytest.mark.parametrize("moment", [0.0, 1.0, 2.5, 5.0, 10.0])
def test_a_node_that_is_still_starting_ends_with_a_sentence(home: Path, moment: float) -> None:
    """Moments that fall into imports of each of its processes, on a fast machine or a slow one."""
    node = start_node(home)
    wait_until(lambda: listens(node), 60, "Python starts")
    time.sleep(moment)
    os.killpg(node.pid, signal.SIGINT)
    said, _ = node.communicate(timeout=SOON * LOADED)  # until the last of its processes has ended
    assert "Traceback" not in said
    assert "interrupted" in said or "this node ends" in said
    assert node.returncode in (0, 130)
    assert processes(f"FLWR_HOME={home}") == []


def listens(node: "subprocess.Popen[str]") -> bool:
    """Whether the command has begun to take Ctrl-C for an interrupt."""
    status = Path(f"/proc/{node.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << signal.SIGHUP - 1)
