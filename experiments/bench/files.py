"""How many source files a steady round passes through: what a newcomer has to read."""

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Annotated, Any
from unittest.mock import patch

import typer
from rich.table import Table

from experiments.bench.app import app, out
from experiments.bench.measure import run_and_read
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

    settings = {"methods": methods, "clients": 3, "rounds": STEADY + 1, "local_steps": 2}
    threading.setprofile(profile)
    sys.setprofile(profile)
    with patch.object(Rounds, "run_round", run_traced):
        run_and_read(configure(settings), "inprocess", actors=1)
    sys.setprofile(None)
    threading.setprofile(None)
    files = (Path(path).resolve() for path in entered)
    names = (file.relative_to(ROOT) for file in files if file.is_relative_to(ROOT))
    return {str(name) for name in names if name.parts[0] in ROOMS}
