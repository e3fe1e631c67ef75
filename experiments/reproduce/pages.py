"""Makes the tables and pictures of docs/results from the recorded runs.

docs/results/tables.toml says which runs are the rows of which table. A page holds the table between
two marks, which the command rewrites:

    <!-- table: NAME -->
    <!-- end -->
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.reproduce.everything import PAGE, make_markdown, make_page, make_setting
from experiments.reproduce.tables import WORDS, When, Written, look_up, read_metric
from fedmirage.common.errors import DataError
from fedmirage.comparison.curves import Curve, draw_by_round
from fedmirage.comparison.statistics import Difference, judge_together, paired_difference, spread
from fedmirage.comparison.table import NONE, say_difference, say_spread, say_verdict
from fedmirage.records.lines import read_record, read_rounds

FILE, README = "tables.toml", "README.md"
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
    metric: str = "accuracy"
    columns: tuple[When, ...] = ("last", "best", "last-five")
    compared: When = "last-five"
    """What the rows are compared with the first one by, in pairs with the same seed."""
    first_round: int = 1
    """Earlier rounds do not count, where rows share them."""
    per_cent: bool = True
    """Whether the metric is a share; others are shown as they are."""


class PagePicture(Written):
    """A picture: the accuracy by round of each row, with a band over its seeds."""

    file: str
    rows: tuple[PageRow, ...]
    metric: str = "accuracy"


class PageSetting(Written):
    """A table of all recorded runs of one setting, beside FedAvg, placebos and the recipe."""

    name: str
    page: str
    run: str
    """Any recorded run of the setting."""


class Pages(Written):
    """Everything in docs/results that is made from recorded runs."""

    table: tuple[PageTable, ...] = ()
    setting: tuple[PageSetting, ...] = ()
    picture: tuple[PagePicture, ...] = ()


def read_pages(results: Path) -> Pages:
    """Read which tables and pictures there are."""
    return Pages.read(results / FILE, "tables")


def rewrite_pages(results: Path) -> list[Path]:
    """Write all tables and pictures; return the files that were written."""
    pages = read_pages(results)
    made = [(table.page, table.name, make_table(table, results)) for table in pages.table]
    made += [(one.page, one.name, make_setting(one.run, results)) for one in pages.setting]
    for page, name, text in made:
        path = results / page
        path.write_text(replace_block(path, name, text), encoding="utf-8")
    drawn = [draw(picture, results) for picture in pages.picture]
    written = [results / page for page, _, _ in made]
    if (results / README).exists():
        written += write_everything(results)
    return [*dict.fromkeys(written), *drawn]


def write_everything(results: Path) -> list[Path]:
    """Write the one table of all recorded runs, into the first page and as one that sorts."""
    readme, page = results / README, results / PAGE
    text = replace_block(readme, "everything", make_markdown(results))
    readme.write_text(text, encoding="utf-8")
    page.write_text(make_page(results), encoding="utf-8")
    return [readme, page]


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
    compared = [found[table.compared] for found in values]
    differences = judge_rows(compared)
    judged = table.per_cent and any(one and one.deviation is not None for one in differences)
    heads += ["Verdict"] * judged
    lines = [heads, ["---"] * len(heads)]
    for row, found, difference in zip(table.rows, values, differences, strict=True):
        cells = [row.title, row.paper, str(len(row.runs))]
        cells += [say_spread(spread(list(found[when].values()))) for when in table.columns]
        cells += [say_difference(difference)] * (len(table.rows) > 1)
        cells += [say_verdict(difference) if difference else NONE] * judged
        lines.append(cells)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def judge_rows(rows: Sequence[Mapping[int, float]]) -> list[Difference | None]:
    """Compare all rows with the first one, which has no difference, at once."""
    taken = [paired_difference(row, rows[0]) for row in rows[1:]]
    judged = iter(judge_together([one for one in taken if one is not None]))
    return [None, *(one and next(judged) for one in taken)]


def read_row(row: PageRow, table: PageTable, results: Path) -> dict[When, dict[int, float]]:
    """Read the metrics of a row by seed."""
    found: dict[When, dict[int, float]] = {}
    for name in row.runs:
        seed, lines = read_run(results, name)
        lines = [line for line in lines if line["round"] >= table.first_round]
        for when in dict.fromkeys((*table.columns, table.compared)):
            value = read_metric(lines, table.metric, when)
            if value is None:
                raise DataError(f"the recorded run {name} has no {table.metric}")
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
    curves: list[Curve] = []
    for row in picture.rows:
        label = f"{row.title}, {len(row.runs)} seed{'s' * (len(row.runs) > 1)}"
        seeds = []
        for name in row.runs:
            lines = read_run(results, name)[1]
            found = {line["round"]: look_up(line, picture.metric) for line in lines}
            seeds.append({number: one for number, one in found.items() if one is not None})
        curves.append((label, seeds))
    return draw_by_round(curves, results / picture.file)
