"""A queue is done at low priority, survives kill -9, shares rounds, and shows what is left.

A queue gives way to everything else, so these tests need an idle machine.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.commands import fedmirage, processes, rounds_done, start, wait_until
from tests.support.inprocess import run_in_process
from tests.support.queues import write_queue
from tests.support.runs import assert_same_bits, lines

pytestmark = pytest.mark.slow
Begin = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start a queue, which does not outlive a test that fails."""
    with ExitStack() as stack:

        def begin(path: Path) -> "subprocess.Popen[str]":
            child = start("reproduce", "--queue", str(path))
            stack.callback(child.wait)
            stack.callback(child.kill)
            return child

        yield begin


def test_a_queue_goes_on_after_kill_9_and_shows_failures(tmp_path: Path, begin: Begin) -> None:
    path = write_queue(tmp_path, 60)
    first = tmp_path / "runs/fedavg-s0"
    child = begin(path)
    wait_until(lambda: rounds_done(first) > 3, 200, "rounds")
    nice = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[16])
    assert nice == 19
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    wait_until(lambda: processes(f":{tmp_path}") == [], 60, "the end of all processes")
    shown = fedmirage("reproduce", "--queue", str(path), "--status")
    assert shown.returncode == 0, shown.stderr
    assert "0 of 5 runs finished; left: " in shown.stdout
    done = fedmirage("reproduce", "--queue", str(path))
    assert done.returncode == 1  # two of the runs fail
    assert "3 of 5 runs finished" in done.stdout
    assert "virtual_classes=3" in done.stdout
    assert "broken-s0, from which it begins, failed" in " ".join(done.stdout.split())
    assert [line["round"] for line in lines(first)] == list(range(1, 61))
    assert lines(tmp_path / "runs/step-s0")[0]["round"] == 3
    again = fedmirage("reproduce", "--queue", str(path), "--status")
    assert "failed: " in again.stdout
    assert json.loads((tmp_path / "runs/failed.json").read_text()).keys() == {
        "broken-s0",
        "orphan-s0",
    }


DYNAFED = "dynafed(length=4, segment=2, iterations=3, steps=2, per_class=1, min_participants=4)"
SHARED = """
out = "{out}"
results = "DOCS"

[[job]]
name = "fedavg"
settings = {{ rounds = {rounds}, {common} }}

[[job]]
name = "dynafed"
settings = {{ rounds = {rounds}, methods = "METHODS", {common} }}
""".replace("METHODS", DYNAFED)


def test_a_run_goes_on_though_the_run_that_lent_it_rounds_is_only_a_record(
    tmp_path: Path, begin: Begin
) -> None:
    """Its numbers are those of a run that did all rounds itself."""
    (tmp_path / "docs").mkdir()
    path = write_queue(tmp_path, 40, SHARED.replace("DOCS", str(tmp_path / "docs")))
    fedavg, dynafed = (tmp_path / "runs" / name for name in ("fedavg-s0", "dynafed-s0"))
    child = begin(path)
    wait_until(lambda: rounds_done(dynafed) > 3, 240, "rounds")
    child.send_signal(signal.SIGTERM)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 130, output
    assert (tmp_path / "docs/runs/fedavg-s0/results.jsonl").exists()
    shutil.rmtree(fedavg)
    done = fedmirage("reproduce", "--queue", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not fedavg.exists()
    assert [line["round"] for line in lines(dynafed)] == list(range(4, 41))
    run_in_process(
        tmp_path / "whole",
        methods=DYNAFED,
        dataset="digits(limit=300)",
        rounds=40,
        clients=4,
        local_steps=3,
        batch_size=16,
    )
    assert_same_bits(tmp_path / "whole", dynafed)
