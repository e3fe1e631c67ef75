"""What benchmarks share: their command line, the console, and the measuring of a run's rounds.

Times depend on the host, so each benchmark gives a ratio of two things measured in one run.
"""

import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from fedmirage.commands.told import explained
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.records.lines import Lines, read_rounds
from fedmirage.runtimes.simulation import plan_actors, simulate

app = typer.Typer(
    help="Benchmarks of fedmirage. Times on a busy machine are noisy; the ratios are what counts.",
    no_args_is_help=True,
)
out = Console()


def benchmark(work: Callable[..., None]) -> Callable[..., None]:
    """Add a function as the command of its name; its docstring explains its options."""
    app.command(work.__name__.strip("_").replace("_", "-"))(explained(work))
    return work


@app.callback()
def main() -> None:
    """Keep quiet about single runs: a table is all that is wanted."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


def run_and_read(config: RunConfig, runtime: str, actors: int = 0, code: str = "own") -> Lines:
    """Do a run in a folder that is removed afterwards, and return the lines of its rounds.

    Over gRPC, SuperNodes run their own code or any (fedmirage/node/supernode.py).
    """
    from fedmirage.runtimes.grpc import deploy
    from fedmirage.runtimes.inprocess import run_in_process

    with tempfile.TemporaryDirectory() as folder:
        placed = configure(config.flat(), {"out": folder})
        if runtime == "grpc":
            deploy(placed, Console(quiet=True), code=code)
        elif runtime == "simulation":
            simulate(placed)
        else:
            run_in_process(placed, actors or plan_actors(placed).actors)
        return read_rounds(Path(folder))


def measure_round(
    config: RunConfig, runtime: str, rounds: int, code: str = "own"
) -> dict[str, float]:
    """Measure the median round of a run: seconds without evaluation, and bytes."""
    lines = run_and_read(config, runtime, code=code)[-rounds:]
    times = [line["seconds"]["round"] - line["seconds"]["evaluate"] for line in lines]
    moved = {
        key: statistics.median(line[key] for line in lines) for key in ("bytes_up", "bytes_down")
    }
    return {"seconds": statistics.median(times), **moved}


def compare_rounds(settings: dict[str, Any], lines: Mapping[str, str], rounds: int) -> Table:
    """Lay out processor seconds and bytes per round of methods lines, beside those of the first."""
    table = Table("methods", "processor s per round", "ratio", "up MB", "ratio")
    first: dict[str, float] = {}
    for name, line in lines.items():
        found = measure_processor({**settings, "methods": line}, rounds)
        first = first or found
        cells = [
            text
            for key, unit in (("seconds", 1.0), ("bytes_up", 1e6))
            for text in (f"{found[key] / unit:.2f}", f"{found[key] / first[key]:.2f}")
        ]
        table.add_row(name, *cells)
    return table


def measure_processor(settings: dict[str, Any], rounds: int) -> dict[str, float]:
    """Measure rounds in this process: processor seconds and bytes per round.

    The start, the first round and the last evaluation are in both of two runs, and cancel.
    """
    seconds = []
    for number in (1, rounds + 1):
        started = time.process_time()
        lines = run_and_read(configure({**settings, "rounds": number}), "inprocess", actors=1)
        seconds.append(time.process_time() - started)
    moved = {key: lines[-1][key] for key in ("bytes_up", "bytes_down")}
    return {"seconds": (seconds[1] - seconds[0]) / rounds, **moved}
