"""Where commands print."""

from pathlib import Path

from rich.console import Console

out = Console()
err = Console(stderr=True)


def show_path(what: str, path: Path) -> None:
    """Print a path on one line, so that it can be copied from a narrow terminal too."""
    out.print(f"{what}: {path}", highlight=False, markup=False, soft_wrap=True)
