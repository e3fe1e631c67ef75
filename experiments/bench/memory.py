"""The resident memory of a simulation over many rounds."""

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from experiments.bench.app import app, out
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.simulation import simulate
from fedmirage.server.record.results import FILE, read

FIRST = 5  # the round after which everything is loaded
ACTOR = b"ray::ClientAppActor"


@app.command()
def memory(
    rounds: Annotated[int, typer.Option(help="The last round; compared with the fifth.")] = 30,
    dataset: Annotated[str, typer.Option(help="The data set.")] = "digits",
) -> None:
    """Measure the resident memory of a simulation (server, actors) after round 5 and the last."""
    if rounds <= FIRST:
        raise typer.BadParameter(
            f"rounds={rounds}: write more than {FIRST}, after which memory is first measured"
        )
    megabytes: dict[int, float] = {}  # by round
    with tempfile.TemporaryDirectory() as folder:
        done = threading.Event()
        watcher = threading.Thread(target=follow, args=(Path(folder), megabytes, done))
        watcher.start()
        simulate(
            configure(
                {
                    "dataset": dataset,
                    "rounds": rounds + 1,  # after the last one, the actors end
                    "clients": 10,
                    "local_epochs": 1,
                    "out": folder,
                }
            )
        )
        done.set()
        watcher.join()
    first, last = choose_rounds(megabytes, rounds)
    table = Table("after round", "resident MB (server and actors)")
    for number in (first, last):
        table.add_row(str(number), f"{megabytes[number]:.0f}")
    table.add_row("growth", f"{100 * (megabytes[last] / megabytes[first] - 1):+.1f} %")
    out.print(table)


def choose_rounds(megabytes: Mapping[int, float], rounds: int) -> tuple[int, int]:
    """Return the first and the last round to compare; rounds that passed unseen are left out."""
    seen = [number for number in megabytes if FIRST <= number <= rounds]
    return min(seen), max(seen)


def follow(folder: Path, megabytes: dict[int, float], done: threading.Event) -> None:
    """Note the resident memory whenever the line of a round appears."""
    while not done.wait(0.1):
        rounds = [line["round"] for line in read(folder / FILE) if line["kind"] == "round"]
        if rounds and rounds[-1] not in megabytes:
            megabytes[rounds[-1]] = measure_memory(os.getpid())


def measure_memory(parent: int) -> float:
    """Add up the megabytes of a process and of its Ray actors, without Ray's own daemons."""
    pages = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                is_actor = ACTOR in (entry / "cmdline").read_bytes()
                if int(entry.name) == parent or (is_actor and comes_from(int(entry.name), parent)):
                    pages += int((entry / "statm").read_text().split()[1])
            except OSError:
                continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def comes_from(process: int, ancestor: int) -> bool:
    """Whether a process was started by another, directly or not; other runs have actors, too."""
    while process > 1 and process != ancestor:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == ancestor
