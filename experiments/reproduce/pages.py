"""Makes the tables and pictures of docs/results from the recorded runs.

docs/results/tables.toml says which runs are the rows of which table. A page holds the table between
two marks, which the command rewrites:

    <!-- table: NAME -->
    <!-- end -->
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from experiments.reproduce.checks import Written, complaints
from experiments.reproduce.figures import WORDS, read_figure
from experiments.reproduce.tables import When
from fedmirage.common.errors import DataError
from fedmirage.comparison.records import read_record, read_rounds
from fedmirage.comparison.statistics import paired_difference, spread
from fedmirage.comparison.table import say_difference, say_spread
from fedmirage.show.compare import STYLES

FILE = "tables.toml"
BLOCK = "<!-- table: {name} -->\n{text}<!-- end -->"


class PageRow(Written):
    """A row of a table, or a curve of a picture: one run per seed."""

    title: str
    runs: tuple[str, ...]
    paper: str = "-"


class PageTable(Written):
    """A table of a page."""

    name: str
    page: str
    head: str
    rows: tuple[PageRow, ...]
    figure: str = "accuracy"
    columns: tuple[When, ...] = ("last", "best", "last-five")
    compared: When = "last-five"
    """What the rows are compared with the first one by, in pairs with the same seed."""
    first_round: int = 1
    """Earlier rounds do not count, where rows share them."""
    per_cent: bool = True
    """Whether the figure is a share; others are shown as they are."""


class PagePicture(Written):
    """A picture: the accuracy by round of each row, with a band over its seeds."""

    file: str
    rows: tuple[PageRow, ...]
    figure: str = "accuracy"


class Pages(Written):
    """Everything in docs/results that is made from recorded runs."""

    table: tuple[PageTable, ...] = ()
    picture: tuple[PagePicture, ...] = ()


def read_pages(results: Path) -> Pages:
    """Read which tables and pictures there are."""
    path = results / FILE
    try:
        return Pages.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise DataError(f"{path} is no list of tables: {'; '.join(complaints(error))}") from None
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} cannot be read as a list of tables: {error}") from None


def rewrite_pages(results: Path) -> list[Path]:
    """Write all tables and pictures; return the files that were written."""
    pages = read_pages(results)
    for table in pages.table:
        path = results / table.page
        path.write_text(
            replace_block(path, table.name, make_table(table, results)), encoding="utf-8"
        )
    drawn = [draw(picture, results) for picture in pages.picture]
    return [*dict.fromkeys(results / table.page for table in pages.table), *drawn]


def replace_block(path: Path, name: str, text: str) -> str:
    """Return a page with another text between the marks of a table."""
    content = path.read_text(encoding="utf-8")
    pattern = re.compile(f"<!-- table: {re.escape(name)} -->\n.*?<!-- end -->", re.DOTALL)
    if len(pattern.findall(content)) != 1:
        raise DataError(f"{path} must have the marks <!-- table: {name} --> and <!-- end --> once")
    return pattern.sub(lambda _: BLOCK.format(name=name, text=text), content)


def make_table(table: PageTable, results: Path) -> str:
    """Make the Markdown of a table: mean and standard deviation over seeds, in per cent."""
    values = [read_row(row, table, results) for row in table.rows]
    heads = [table.head, "Paper", "Seeds", *(WORDS[when] for when in table.columns)]
    if len(table.rows) > 1:
        heads.append(f"{WORDS[table.compared]}, minus the first row's")
    lines = [heads, ["---"] * len(heads)]
    for row, found in zip(table.rows, values, strict=True):
        cells = [row.title, row.paper, str(len(row.runs))]
        cells += [say_spread(spread(list(found[when].values()))) for when in table.columns]
        if len(table.rows) > 1:
            own, first = found[table.compared], values[0][table.compared]
            cells.append("-" if own is first else say_difference(paired_difference(own, first)))
        lines.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def read_row(row: PageRow, table: PageTable, results: Path) -> dict[When, dict[int, float]]:
    """Read the figures of a row by seed."""
    found: dict[When, dict[int, float]] = {}
    for name in row.runs:
        seed, lines = read_run(results, name)
        lines = [line for line in lines if line["round"] >= table.first_round]
        for when in dict.fromkeys((*table.columns, table.compared)):
            value = read_figure(lines, table.figure, when)
            if value is None:
                raise DataError(f"the recorded run {name} has no {table.figure}")
            found.setdefault(when, {})[seed] = value if table.per_cent else value / 100
    return found


def read_run(results: Path, name: str) -> tuple[int, list[dict[str, Any]]]:
    """Read the seed and the rounds of a recorded run."""
    folder = results / "runs" / name
    lines = read_record(folder)
    if not lines:
        raise DataError(f"there is no recorded run {name} in {folder.parent}")
    return int(lines[0]["seed"]), read_rounds(folder)


def draw(picture: PagePicture, results: Path) -> Path:
    """Draw the mean over seeds by round, and between which values the seeds lie."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for number, row in enumerate(picture.rows):
        runs = [read_run(results, name)[1] for name in row.runs]
        rounds, values = by_round(runs, picture.figure)
        means = [sum(column) / len(column) for column in values]
        label = f"{row.title}, {len(runs)} seed{'s' * (len(runs) > 1)}"
        style = STYLES[number % len(STYLES)]  # curves that coincide stay visible
        axes.plot(rounds, means, style, color=f"C{number}", label=label)
        lows, highs = [min(column) for column in values], [max(column) for column in values]
        axes.fill_between(rounds, lows, highs, color=f"C{number}", alpha=0.2, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy on the test set")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path = results / picture.file
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)
    return path


def by_round(
    runs: Sequence[Sequence[Mapping[str, Any]]], figure: str
) -> tuple[list[int], list[list[float]]]:
    """Collect the values of all seeds round by round, for rounds that all of them have."""
    found: dict[int, list[float]] = {}
    for lines in runs:
        for line in lines:
            value = read_figure([dict(line)], figure, "last")
            if value is not None:
                found.setdefault(int(line["round"]), []).append(value)
    complete = sorted(number for number, values in found.items() if len(values) == len(runs))
    return complete, [found[number] for number in complete]
