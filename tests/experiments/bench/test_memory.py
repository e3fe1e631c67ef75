"""The benchmark of memory measures its own processes, while they are there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.bench import memory
from experiments.bench.memory import choose_rounds, comes_from, measure_memory


def test_rounds_before_the_fifth_and_after_the_last_do_not_count() -> None:
    seen = {4: 1.0, 6: 2.0, 9: 3.0, 29: 4.0, 31: 0.5}
    assert choose_rounds(seen, 30) == (6, 29)


@contextmanager
def waiting_process(name: str) -> Iterator[int]:
    """A process with a name among its arguments, which waits; its id."""
    code = "print(flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


def test_actors_of_other_runs_do_not_count() -> None:
    """A child of this process that has an actor's name counts here, and not for other processes."""
    with waiting_process("other") as other:
        own, others = measure_memory(os.getpid()), measure_memory(other)
        with waiting_process(memory.ACTOR.decode()) as actor:
            assert comes_from(actor, os.getpid())
            assert not comes_from(actor, other)
            assert measure_memory(os.getpid()) > own + 1
            assert measure_memory(other) < others + 1
