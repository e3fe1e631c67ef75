"""Runs that are disturbed at a random moment, and what must hold of them afterwards.

A disturbed run may go on, or end with a sentence, after which it is resumed. Either way it
finishes, nothing of it is left running or half-written, and if no client was left out its model has
the bits of an undisturbed run.
"""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from tests.support.commands import fedmirage, processes, start, wait_until
from tests.support.runs import lines, weights

TRIALS = "FEDMIRAGE_TRIALS"
ROUNDS = {"inprocess": 8, "simulation": 5, "grpc": 3}
MODES = ("off", "on", "flower")
PATIENCE = 400  # seconds for a run that may first wait for clients that will not come


def trials(whole: int, few: int) -> list[int]:
    """The seeds of a kind of trials: a few, or with FEDMIRAGE_TRIALS=all the whole number."""
    return [*range(whole if os.environ.get(TRIALS) == "all" else few)]


@dataclass(frozen=True)
class Trial:
    """One run that will be disturbed."""

    folder: Path
    runtime: str
    secagg: str

    @property
    def clients(self) -> int:
        """A secure sum of four does without one of them."""
        return 4 if self.secagg == "on" else 3

    @property
    def rounds(self) -> int:
        """How many rounds the run has."""
        return ROUNDS[self.runtime]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run."""
        return {
            "dataset": "digits(limit=300)",
            "methods": "moon",  # its clients remember something
            "rounds": self.rounds,
            "local-steps": 3,
            "batch-size": 16,
            "clients": self.clients,
            "secagg": self.secagg,
            "node-timeout": 40,
            "round-timeout": 40,
            "out": str(self.folder),
        }

    @property
    def arguments(self) -> list[str]:
        """The command line."""
        told = {**self.settings, "runtime": self.runtime}
        return ["run", *(word for key, value in told.items() for word in (f"--{key}", f"{value}"))]

    def start(self) -> "subprocess.Popen[str]":
        """Start it."""
        return start(*self.arguments)

    def draw_moment(self, rng: random.Random) -> float:
        """Draw the second of the run in which it is disturbed."""
        return rng.uniform(0.1, 0.95) * undisturbed(self.runtime, self.secagg)[1]

    def settle(
        self, process: "subprocess.Popen[str]", mend: Callable[[], object] = lambda: None
    ) -> str:
        """Wait for the end of a disturbed run, and resume it if it has to be; tell how it ended."""
        output, _ = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in output, output
        assert "0x" not in output, output  # addresses of a stack
        assert process.returncode in (0, 1, -9), output
        wait_until(lambda: processes(str(self.folder)) == [], 40, "the end of all processes")
        mend()
        if process.returncode == 0:
            ended = "went on"
        else:
            ended = output.strip().splitlines()[-1] if process.returncode == 1 else "was killed"
            self.resume()
        self.check()
        return ended + ("" if self.whole else ", without a client in some round")

    def resume(self) -> None:
        """Continue the run, or begin it again if it has no checkpoint."""
        again = ["run", "--resume", str(self.folder), "--runtime", self.runtime]
        resumable = (self.folder / "checkpoint.safetensors").exists()
        done = fedmirage(*(again if resumable else self.arguments), timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def whole(self) -> bool:
        """Whether no client was left out in any round."""
        return all(len(line["clients"]) == self.clients for line in lines(self.folder))

    def check(self) -> None:
        """Check what a run leaves that has finished."""
        assert processes(str(self.folder)) == []
        assert [line["round"] for line in lines(self.folder)] == list(range(1, self.rounds + 1))
        assert [line["status"] for line in lines(self.folder, "summary")] == ["finished"]
        assert list(leftovers(self.folder)) == []
        if self.whole:
            expected = weights(undisturbed(self.runtime, self.secagg)[0])
            pairs = zip(weights(self.folder), expected, strict=True)
            apart = max(float(np.abs(one - other).max()) for one, other in pairs)
            # Flower's mod rounds at random, so its runs differ in the last digits.
            assert apart <= (0.05 if self.secagg == "flower" else 0.0)


def leftovers(folder: Path) -> Iterator[Path]:
    """Find drafts and temporary folders."""
    for path in folder.rglob("*"):
        if path.suffix == ".tmp" or path.name.startswith((".flower-", "tmp")):
            yield path


@cache
def undisturbed(runtime: str, secagg: str) -> tuple[Path, float]:
    """The folder of a run that nobody disturbs, and how many seconds it took."""
    trial = Trial(Path(mkdtemp(dir=os.environ["FEDMIRAGE_TEST_HOME"])) / "run", runtime, secagg)
    began = time.monotonic()
    done = fedmirage(*trial.arguments, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return trial.folder, time.monotonic() - began


def wait_for(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Let a run work for a while; return whether it still does."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


KINDS: dict[str, Callable[[str], bool]] = {
    "command": lambda line: "fedmirage.entry" in line,
    "guardian": lambda line: "guardian.py" in line,
    "child": lambda line: "runtimes.child" in line,
    "helper": lambda line: "multiprocessing" in line,
    "gcs": lambda line: "gcs_server" in line,
    "raylet": lambda line: "raylet/raylet" in line,
    "actor": lambda line: "ray::" in line or "default_worker" in line,
    "service of Ray's": lambda line: "site-packages/ray" in line,
    "superlink": lambda line: "flower-superlink" in line,
    "flwr": lambda line: "bin/flwr " in line,
    "serverapp": lambda line: "serverapp" in line or "superexec" in line,
    "template": lambda line: "node.template" in line,
    "tasks": lambda line: "node.task" in line,
    "supernode": lambda line: "node.supernode" in line,
}


def find_kinds(folder: Path) -> dict[str, list[int]]:
    """Sort the processes of a run by what they do."""
    found: dict[str, list[int]] = {}
    for identifier in processes(str(folder)):
        try:
            line = Path(f"/proc/{identifier}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        kind = next((kind for kind, fits in KINDS.items() if fits(line)), line[:60])
        found.setdefault(kind, []).append(identifier)
    return found
