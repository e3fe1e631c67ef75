"""How long a person waits for --help, and for the first round."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from experiments.bench.app import app, out
from fedmirage.runtimes.processes import environment
from fedmirage.server.record.results import FILE, read

COMMAND = [sys.executable, "-P", "-m", "fedmirage.entry"]
LOOK = 0.02  # seconds between two looks for the first round


@app.command()
def startup(
    repeats: Annotated[int, typer.Option(help="Repeats whose median counts.")] = 3,
    clients: Annotated[int, typer.Option(help="Clients of the run.")] = 10,
    runtimes: Annotated[str, typer.Option(help="The runtimes.")] = "inprocess,simulation",
) -> None:
    """Measure --help beside a bare Python, and the way to the first round beside `import torch`.

    The run is on digits. Its first round begins when the server draws the round's clients.
    """
    table = Table("what", "seconds", "ratio", "to what")
    python = median(repeats, lambda: time_command([sys.executable, "-c", "pass"]))
    torch = median(repeats, lambda: time_command([sys.executable, "-c", "import torch"]))
    table.add_row("a bare Python", f"{python:.2f}", "", "")
    for words in (["--help"], ["run", "--help"]):
        seconds = median(repeats, lambda: time_command([*COMMAND, *words]))  # noqa: B023
        name = f"fedmirage {' '.join(words)}"
        table.add_row(name, f"{seconds:.2f}", f"{seconds / python:.1f}", "a bare Python")
    table.add_row("import torch", f"{torch:.2f}", "", "")
    for runtime in runtimes.split(","):
        seconds = median(repeats, lambda: time_first_round(runtime, clients))  # noqa: B023
        name = f"fedmirage run --runtime {runtime}, to its first round"
        table.add_row(name, f"{seconds:.2f}", f"{seconds / torch:.1f}", "import torch")
    out.print(table)


def median(repeats: int, measure: Callable[[], float]) -> float:
    """Repeat a measurement, and take its median."""
    return statistics.median(measure() for _ in range(repeats))


def time_command(command: list[str]) -> float:
    """Time a command from its start to its end."""
    started = time.perf_counter()
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def time_first_round(runtime: str, clients: int) -> float:
    """Time a run up to the beginning of its first round, which the line of that round tells."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*COMMAND, "run", "--runtime", runtime, "--clients", str(clients)]
        command += ["--rounds", "1", "--local-steps", "1", "--out", f"{folder}/run"]
        started = time.perf_counter()
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
        file = Path(folder) / "run" / FILE
        while process.poll() is None:
            lines = [line for line in read(file) if line["kind"] == "round"]
            if lines:
                seconds = time.perf_counter() - started - float(lines[0]["seconds"]["round"])
                process.wait()
                return seconds
            time.sleep(LOOK)
    raise RuntimeError(f"the run ended with code {process.returncode} before its first round")
