"""What came out beside what the paper has: ours, the paper's, the difference."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table as Shown

from experiments.reproduce.jobs import Cell, Scale
from experiments.reproduce.tables import in_per_cent, read_metric
from fedmirage.common.errors import DataError
from fedmirage.comparison.export import Writers, as_csv, as_json
from fedmirage.comparison.statistics import spread
from fedmirage.records.lines import find_summary, read_rounds
from fedmirage.show.words import make_table

NONE = "-"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Answer:
    """One cell with its numbers in the paper's unit; what there is none of is None."""

    table: str
    row: str
    column: str
    scale: Scale
    ours: float | None
    deviation: float | None  # over seeds
    seeds: int
    paper: float | None
    paper_deviation: float | None
    difference: float | None  # only at the paper's scale
    remark: str = ""
    failed: bool = False  # whether a run that should have given it did not


def make_answer(
    cell: Cell, scale: Scale, folders: Sequence[Path], why: Sequence[str] = (), failed: bool = False
) -> Answer:
    """Compare the runs of a cell with the paper's number."""
    read = [read_cell(cell, folder) for folder in folders]
    values = [one for one in read if not isinstance(one, str)]
    reasons = [one for one in (*why, *read) if isinstance(one, str) and one]
    found, (paper, deviation) = spread(values), read_paper(cell.paper)
    ours = found.mean if found else None
    comparable = scale == "paper" and ours is not None and paper is not None
    return Answer(
        table=cell.table.name,
        row=cell.row.name,
        column=cell.column.name,
        scale=scale,
        ours=ours,
        deviation=found.deviation if found else None,
        seeds=len(values),
        paper=paper,
        paper_deviation=deviation,
        difference=ours - paper if comparable else None,  # type: ignore[operator]
        remark="; ".join(dict.fromkeys(reasons)),
        failed=failed,
    )


def read_cell(cell: Cell, folder: Path) -> float | str:
    """Read what a run has for a cell, in the paper's unit; a sentence says why it has nothing."""
    try:
        summary, lines = find_summary(folder), read_rounds(folder)
    except DataError as error:
        return str(error)
    if summary.get("status") != "finished":
        return str(summary.get("reason", summary.get("status", "not run")))
    value = read_metric(lines, cell.metric, cell.when, cell.target)
    if value is not None:
        return value * 100 if in_per_cent(cell.metric, cell.when) else value
    if cell.when == "reached":
        return f"never reached {100 * (cell.target or 0):g} %"
    return f"results.jsonl has no {cell.metric}"


def read_paper(text: str) -> tuple[float | None, float | None]:
    """Read a printed number and its ±."""
    numbers = [float(number) for number in NUMBER.findall(text)]
    return (numbers[0] if numbers else None, numbers[1] if len(numbers) > 1 else None)


def show_answers(cells: Sequence[Cell], answers: Sequence[Answer], scale: Scale) -> Shown:
    """Lay the cells out, one per line."""
    table = cells[0].table
    title = f"{table.name}: {table.title}"
    if scale == "small":
        title += "\nSMALL SCALE: these numbers are not comparable with the paper's"
    numbers = ("ours" if scale == "paper" else "ours (small)", "paper", "difference")
    shown = make_table(("row", "column", *numbers), numbers, title)
    for cell, answer in zip(cells, answers, strict=True):
        difference = NONE if answer.difference is None else f"{answer.difference:+.2f}"
        ours = say_number(answer.ours, answer.deviation, cell)
        shown.add_row(cell.row.shown, cell.column.shown, ours, cell.paper, difference)
    return shown


def say_number(value: float | None, deviation: float | None, cell: Cell) -> str:
    """Write one of our numbers with as many digits as accuracies have, or as rounds need."""
    if value is None:
        return NONE
    digits = 2 if in_per_cent(cell.metric, cell.when) else 1
    more = "" if deviation is None else f" ±{deviation:.{digits}f}"
    return f"{value:.{digits}f}{more}"


WRITERS: Writers = {
    "csv": lambda answers: as_csv([asdict(answer) for answer in answers]),
    "json": lambda answers: as_json([asdict(answer) for answer in answers]),
}
