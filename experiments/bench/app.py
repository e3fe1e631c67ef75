"""The command line to which every benchmark adds itself, and the console for their tables.

Times depend on the host, so each benchmark gives a ratio of two things measured in one run.
"""

import typer
from rich.console import Console

app = typer.Typer(
    help="Benchmarks of fedmirage. Times on a busy machine are noisy; the ratios are what counts.",
    no_args_is_help=True,
)
out = Console()


@app.callback()
def main() -> None:
    """Make Typer keep the names of the benchmarks, even if there is only one."""
