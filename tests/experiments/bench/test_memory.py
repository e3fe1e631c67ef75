"""The benchmark of memory measures its own processes, while they are there."""

import os
import subprocess
import sys

from experiments.bench import memory
from experiments.bench.memory import choose_rounds, comes_from, measure_memory


def test_rounds_before_the_fifth_and_after_the_last_do_not_count() -> None:
    seen = {4: 1.0, 6: 2.0, 9: 3.0, 29: 4.0, 31: 0.5}
    assert choose_rounds(seen, 30) == (6, 29)


def test_actors_of_other_runs_do_not_count() -> None:
    """The process below has an actor's name, and is a descendant of this one only."""
    name = memory.ACTOR.decode()
    code = "print(flush=True); input()"
    actor = subprocess.Popen(
        [sys.executable, "-c", code, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert actor.stdout is not None
    actor.stdout.readline()
    try:
        assert comes_from(actor.pid, os.getpid())
        assert not comes_from(os.getppid(), os.getpid())
        assert measure_memory(os.getpid()) > measure_memory(actor.pid) > 1.0
    finally:
        actor.communicate(b"\n")
