"""The command line to which every benchmark adds itself, and the console for their tables.

Times depend on the host, so each benchmark gives a ratio of two things measured in one run.
"""

import logging
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    help="Benchmarks of fedmirage. Times on a busy machine are noisy; the ratios are what counts.",
    no_args_is_help=True,
)
out = Console()
Dataset = Annotated[str, typer.Option(help="28x28 or larger; Fashion-MNIST is the reference.")]
DataDir = Annotated[str, typer.Option(help="Where to look for it.")]
Steps = Annotated[int, typer.Option(help="Local steps per client.")]
MEDIAN = "Rounds whose median counts; the first one, which warms up, does not."
Rounds = Annotated[int, typer.Option(help=MEDIAN)]


@app.callback()
def main() -> None:
    """Keep quiet about single runs: a table is all that is wanted."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
