"""`fedmirage reproduce`: lists the papers' tables, estimates what they cost, and runs them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.reproduce.answer import WRITERS, Answer, make_answer, say_number, show_answers
from experiments.reproduce.cost import Clock, estimate_jobs
from experiments.reproduce.jobs import (
    SCALES,
    Cell,
    ChosenCells,
    choose_cells,
    describe_small,
    find_lacking,
    is_recorded,
    list_cells,
    make_work,
)
from experiments.reproduce.records import recorded_runs
from experiments.reproduce.tables import list_tables, read_table
from fedmirage.commands.flags import PLACES
from fedmirage.common.errors import FedmirageError
from fedmirage.comparison.export import write_files
from fedmirage.comparison.plan import read_seeds
from fedmirage.comparison.runs import Means, carry_out, check_runs, choose_means
from fedmirage.launch import RUNTIMES
from fedmirage.server.record.folder import make_folder
from fedmirage.settings.layers import report_together
from fedmirage.show.words import make_table, say, say_time

USUAL_OUT = Path("runs", "reproduce")


def show_tables(console: Console) -> None:
    """List all tables: how large they are, how much can be run here, and what is recorded."""
    numbers = ("rows", "columns", "can run here", "recorded")
    shown = make_table(("table", "what it shows", *numbers), numbers)
    runs, lacking = recorded_runs(), lru_cache(partial(find_lacking, data_dir=""))
    for name in list_tables():
        table = read_table(name)
        cells = [cell for cell in list_cells(table) if not cell.missing]
        here = sum(not lacking(cell.dataset) for cell in cells)
        recorded = sum(bool(find_recorded(cell, runs)) for cell in cells)
        counts = (len(table.rows), len(table.columns), here, recorded)
        shown.add_row(name, table.title, *(str(count or "-") for count in counts))
    console.print(shown)
    say(console, "Cells that cannot be run say why, and so do those whose data are not here:")
    say(console, "fedmirage reproduce PAPER/TABLE --estimate")


def find_recorded(cell: Cell, runs: Mapping[Path, Mapping[str, Any]]) -> list[Path]:
    """Find the recorded runs of a cell at the paper's scale."""
    lines = {str(settings["methods"]) for settings in runs.values()}
    if cell.line not in lines:  # most cells end here, without their settings being checked
        return []
    config = cell.configure("paper", {})
    return [path for path, settings in runs.items() if is_recorded(config, settings)]


def choose(name: str, given: Mapping[str, Any]) -> list[Cell]:
    """Choose the cells; refuse everything that is wrong with the flags, all at once."""
    problems: list[str] = []
    read_seeds(given["seeds"], problems)
    for what, known in (("scale", SCALES), ("runtime", RUNTIMES)):
        if given[what] not in known:
            problems.append(f"{what}={given[what]!r} is not known; write {' or '.join(known)}")
    with report_together(problems):
        return choose_cells(read_table(name), given["row"] or [], given["column"] or [])


def reproduce(name: str, given: Mapping[str, Any], console: Console) -> list[Answer]:
    """Run the chosen cells of a table, and show ours beside the paper's."""
    cells, scale = choose(name, given), given["scale"]
    folder = (given["out"] or USUAL_OUT).expanduser().absolute()
    more = {"data-dir": given["data_dir"] or "", "download": given["download"]}
    work = make_work(cells, scale, read_seeds(given["seeds"], []), folder, more)
    describe_tables(cells, work, scale, console)
    if not work.jobs:
        raise FedmirageError(f"nothing of {name} can be run here with this choice")
    means = choose_means(work.jobs, folder, **{name: given[name] for name in PLACES})
    estimates = show_cost(work, means, console)
    if given["estimate"]:
        say(console, f"rows: {', '.join(dict.fromkeys(cell.row.name for cell in cells))}")
        say(console, f"columns: {', '.join(dict.fromkeys(cell.column.name for cell in cells))}")
        return []
    make_folder(folder)
    check_runs(work.jobs, folder)
    failed = carry_out(work.jobs, means, folder, console, estimates=estimates)
    answers = [make_cell_answer(cell, scale, work, failed) for cell in cells]
    console.print(show_answers(cells, answers, scale))
    for answer in (answer for answer in answers if answer.remark):
        text = f"{answer.row}, {answer.column}: {answer.remark}"
        console.print(text, style="yellow", highlight=False, markup=False)
    for path in write_files(WRITERS, answers, {kind: given[kind] for kind in WRITERS}).values():
        say(console, f"written: {path}")
    say(console, f"results: {folder}")
    return answers


def make_cell_answer(
    cell: Cell, scale: Any, work: ChosenCells, failed: Mapping[Path, str]
) -> Answer:
    """Answer a cell that was run, or say why it was not."""
    folders = work.folders.get(cell, [])
    broken = [failed[folder] for folder in folders if folder in failed]
    lacking = work.without_data.get(cell)
    reasons = [*broken, cell.missing, f"no files of {lacking}" if lacking else ""]
    usable = [folder for folder in folders if folder not in failed]
    return make_answer(cell, scale, usable, reasons, bool(broken))


def describe_tables(cells: Sequence[Cell], work: ChosenCells, scale: str, console: Console) -> None:
    """Say what is run, what is not and why, and what a small scale means."""
    table = cells[0].table
    say(console, f"{table.name}: {table.title}")
    if table.note:
        say(console, " ".join(table.note.split()))
    if scale == "small" and work.jobs:
        say(console, f"small scale, not comparable with the paper: {describe_small(cells)}")
    for reason, count in count_reasons(cells, work).items():
        counted = "1 cell is" if count == 1 else f"{count} cells are"
        text = f"{counted} left out: {reason}"
        console.print(text, style="yellow", highlight=False, markup=False)
    if scale == "paper":
        show_recorded(cells, console)


def show_recorded(cells: Sequence[Cell], console: Console) -> None:
    """Show the cells of which runs are recorded in docs/results."""
    runs = recorded_runs()
    for cell in (cell for cell in cells if not cell.missing):
        if found := find_recorded(cell, runs):
            answer = make_answer(cell, "paper", found)
            ours = say_number(answer.ours, answer.deviation, cell)
            names = ", ".join(path.name for path in found)
            say(console, f"recorded: {cell.row.shown}, {cell.column.shown}: {ours} ({names})")


def count_reasons(cells: Sequence[Cell], work: ChosenCells) -> dict[str, int]:
    """Count the cells that are not run, by the reason."""
    found: Counter[str] = Counter()
    for cell in cells:
        reason = cell.missing
        if cell in work.without_data:
            reason = (
                f"the files of {work.without_data[cell]} are not here; fedmirage datasets says"
                " where they are looked for, --data-dir names another place, and --download"
                " fetches some of them"
            )
        found.update([reason] if reason else [])
    return found


def show_cost(work: ChosenCells, means: Means, console: Console) -> dict[Path, float]:
    """Measure a step of each network, and say what the runs will take on an idle machine.

    Return the seconds of each run, as far as its actors share them.
    """
    clock = Clock()
    seconds = estimate_jobs(work.jobs, clock)
    steps = ", ".join(f"{key[0]} {1000 * value:.1f} ms" for key, value in clock.known.items())
    at_once = means.at_once * max(1, means.actors)
    say(console, f"measured per training step: {steps}" if steps else "nothing is left")
    total = sum(seconds.values())
    say(
        console,
        f"{len(seconds)} of {len(work.jobs)} runs are left; estimated cost {say_time(total)} of one"
        f" core, {say_time(total / at_once)} with {at_once} at work, on an idle machine"
        " (experiments/reproduce/cost.py explains the estimate)",
    )
    return {folder: one / max(1, means.actors) for folder, one in seconds.items()}
