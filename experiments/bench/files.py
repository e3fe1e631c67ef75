"""How many source files a steady round passes through: what a newcomer has to read."""

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.table import Table

from experiments.bench.app import app, out
from fedmirage.common.settings.config import configure
from fedmirage.common.settings.project import ROOT

ROOMS = ("common", "client", "server", "fedmirage")
STEADY = 3  # by then everything is built, and no method acts for the first time


@app.command()
def files(
    methods: Annotated[str, typer.Option(help="The runs, separated by semicolons.")] = (
        "fedavg; fedmd-cg"
    ),
    names: Annotated[bool, typer.Option(help="List the files, too.")] = False,
) -> None:
    """Count the files in which a function is entered during round 3 of 4, in one process."""
    for line in (text.strip() for text in methods.split(";")):
        entered = trace_round(line)
        table = Table("room", "files", title=f"{line}: {len(entered)} files", title_justify="left")
        rooms = Counter(str(Path(name).parent) for name in entered)
        for room, count in sorted(rooms.items()):
            table.add_row(room, str(count))
        out.print(table)
        if names:
            out.print("\n".join(sorted(entered)), highlight=False)


def trace_round(methods: str) -> set[str]:
    """Return the files of this project that the server and its clients enter in one round."""
    from fedmirage.runtimes.inprocess import run_in_process
    from fedmirage.server.rounds import Rounds

    entered: set[str] = set()
    run_round, traced = Rounds.run_round, False

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if traced and event == "call":
            entered.add(frame.f_code.co_filename)

    def run_traced(self: Rounds, number: int) -> bool:
        nonlocal traced
        traced = number == STEADY
        return run_round(self, number)

    settings = {"methods": methods, "clients": 3, "rounds": STEADY + 1, "local_epochs": 0}
    threading.setprofile(profile)
    sys.setprofile(profile)
    Rounds.run_round = run_traced  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            run_in_process(configure({**settings, "local_steps": 2, "out": folder}))
    finally:
        Rounds.run_round = run_round  # type: ignore[method-assign]
        sys.setprofile(None)
        threading.setprofile(None)
    return {name for path in entered if (name := find_name(path)) is not None}


def find_name(path: str) -> str | None:
    """Return the name of a file below the project's folder; None for any other file."""
    file = Path(path).resolve()
    inside = file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in ROOMS
    return str(file.relative_to(ROOT)) if inside else None
