"""Where commands print."""

from pathlib import Path

from rich.console import Console

from fedmirage.show.words import say

out = Console()
err = Console(stderr=True)


def show_path(what: str, path: Path) -> None:
    """Print a path on one line, so that it can be copied from a narrow terminal too."""
    say(out, f"{what}: {path}")
