"""The command line as a user types it, in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fedmirage.runtimes.interrupts import INTERRUPTIONS
from tests.support.runs import lines

TINY = [
    "--dataset",
    "digits(limit=300)",
    "--rounds",
    "2",
    "--local-steps",
    "3",
    "--batch-size",
    "16",
    "--participation",
    "0.5",
]

SETTINGS = {
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 3,
    "batch_size": 16,
    "participation": 0.5,
}
"""The same for a run in the test's own process."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fedmirage.entry", *arguments]


def fedmirage(
    *arguments: str, timeout: float = 300, said: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        input=said,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=wide(),
        check=False,
    )


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=wide(),
        preexec_fn=heed_signals,
    )


def heed_signals() -> None:
    """Undo that a background job ignores Ctrl-C, and nohup a closed terminal: children inherit it,
    and a test that sends a signal would wait for ever."""
    for number in INTERRUPTIONS:
        signal.signal(number, signal.SIG_DFL)


def wide() -> dict[str, str]:
    """An environment with a wide terminal, so that sentences are not folded."""
    return {**os.environ, "COLUMNS": "1000"}


def wait_until(condition: Callable[[], bool], timeout: float, what: str) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.2)


def processes(mark: str) -> list[int]:
    """Find the ids of running processes whose command line or environment contains a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in text and state != "Z":
                found.append(int(entry.name))
    return found


def kill(identifier: int) -> None:
    os.kill(identifier, signal.SIGKILL)


def rounds_done(folder: Path) -> int:
    return len(lines(folder)) if (folder / "results.jsonl").exists() else 0


def node_processes(folder: Path, partition: int, clients: int = 3) -> list[int]:
    """A SuperNode and whatever it has started."""
    (node,) = processes(
        f'partition-id={partition} num-partitions={clients} memory="{folder}/memory"'
    )
    children = subprocess.run(
        ["pgrep", "-s", str(node)], capture_output=True, text=True, check=False
    ).stdout.split()
    return [node, *(int(child) for child in children if int(child) != node)]
