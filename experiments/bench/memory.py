"""The resident memory of a simulation over many rounds."""

import os
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from common.settings.config import configure
from experiments.bench.app import app, out
from experiments.runtimes.simulation import simulate
from server.record.results import FILE, read


@app.command()
def memory(
    rounds: Annotated[int, typer.Option(help="The last round; compared with the fifth.")] = 30,
    dataset: Annotated[str, typer.Option(help="The data set.")] = "digits",
) -> None:
    """Measure the resident memory of a simulation (server, actors) after round 5 and the last."""
    megabytes: dict[int, float] = {}  # by round
    with tempfile.TemporaryDirectory() as folder:
        done = threading.Event()
        watcher = threading.Thread(target=follow, args=(Path(folder), megabytes, done))
        watcher.start()
        simulate(
            configure(
                {
                    "dataset": dataset,
                    "rounds": rounds,
                    "clients": 10,
                    "local_epochs": 1,
                    "out": folder,
                }
            )
        )
        done.set()
        watcher.join()
    first, last = megabytes[5], megabytes[max(megabytes)]
    table = Table("after round", "resident MB (server and actors)")
    table.add_row("5", f"{first:.0f}")
    table.add_row(str(max(megabytes)), f"{last:.0f}")
    table.add_row("growth", f"{100 * (last / first - 1):+.1f} %")
    out.print(table)


def follow(folder: Path, megabytes: dict[int, float], done: threading.Event) -> None:
    """Note the resident memory whenever the line of a round appears."""
    while not done.wait(0.1):
        rounds = [line["round"] for line in read(folder / FILE) if line["kind"] == "round"]
        if rounds and rounds[-1] not in megabytes:
            megabytes[rounds[-1]] = measure_memory(os.getpid())


def measure_memory(parent: int) -> float:
    """Add up the megabytes of this process and of its Ray actors, without Ray's own daemons."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
                if int(entry.name) == parent or b"ray::ClientAppActor" in title:
                    total += (
                        int((entry / "statm").read_text().split()[1])
                        * os.sysconf("SC_PAGE_SIZE")
                        / 1e6
                    )
            except OSError:
                continue
    return total
