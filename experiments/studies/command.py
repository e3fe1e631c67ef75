"""The command line of a study, which is the signature of its function."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedmirage.commands.told import explained
from fedmirage.common.errors import FedmirageError

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")]


def run_study(study: Callable[..., None]) -> None:
    """Call a study with what was typed; an error is a sentence, not a stack trace."""
    torch.set_num_threads(1)  # for small products, threads would mostly wait for each other
    try:
        typer.run(explained(study))
    except FedmirageError as error:
        raise SystemExit(f"error: {error}") from None
