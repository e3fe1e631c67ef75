"""The command line to which every benchmark adds itself, and the console for their tables.

Times depend on the host, so each benchmark gives a ratio of two things measured in one run.
"""

import logging
from collections.abc import Callable

import typer
from rich.console import Console

from fedmirage.commands.told import explained

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
