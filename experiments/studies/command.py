"""The command of a study of finished runs: python -m experiments.studies.NAME RUN [RUN ...]."""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from fedmirage.common.errors import FedmirageError


def study_runs(name: str, about: str | None, study: Callable[[Path], None]) -> None:
    """Study the folders on the command line; `about` is the docstring that the help begins with."""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.studies.{name}", description=(about or "").split("\n")[0]
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run")
    torch.set_num_threads(1)  # for small products, threads would mostly wait for each other
    try:
        for folder in parser.parse_args().runs:
            study(folder)
    except FedmirageError as error:
        raise SystemExit(f"error: {error}") from None
