"""The sections that look behind the mean: classes, clients, domains, confusion, who holds what.

Splitting by the recorded settings again tells which client holds what.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pandas import DataFrame

from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.errors import FedmirageError, reason
from fedmirage.common.settings.config import configure, defaults
from fedmirage.common.wire.metrics import ON_OWN_LABELS, ON_TEST, TEST_SHARD
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, bullets, element, join, plot_section, table
from fedmirage.report.runs import ReportedRun, brief
from fedmirage.show.words import spread_out

CLIENT_SCORES = {
    f"{TEST_SHARD}accuracy": "Local model on the client's share of the test set",
    ON_TEST: "Local model on the whole test set",
    ON_OWN_LABELS: "Local model, test samples weighted as the client's own labels",
}
SHOWN = 40  # rows and columns that the table beside a heat map has at most
Found = Callable[[ReportedRun], Mapping[str, float | None]]
LARGEST = 20_000  # cells of a table that a page can show
DECIDING = ("dataset", "data-dir", "partition", "clients", "seed")


def classes(group: Group) -> PageSection:
    """Show the recall of every class."""
    said = (
        "The recall of every class of the test set in the last evaluated round, as a mean over"
        " seeds. An accuracy hides classes that a model has lost."
    )
    none = "No run has recorded a recall per class yet."
    found = matrices(group, {"Recall": _recall})
    return heatmap("classes", "Accuracy per class", said, none, found, "Class")


def clients(group: Group) -> PageSection:
    """Show how every client's own model does."""
    said = "The accuracy of every client's own model after its last training, a mean over seeds."
    none = (
        "Clients are scored one by one with --local-evaluation or --diagnostics, and never under"
        " secure aggregation; these runs have no such scores."
    )
    values = {label: _client_score(name) for name, label in CLIENT_SCORES.items()}
    found = matrices(group, values)
    return heatmap("clients", "Accuracy per client", said, none, found, "Client")


def domains(group: Group) -> PageSection | None:
    """Show the accuracy on every domain of the data; there is no section without domains."""
    found = matrices(group, {"Accuracy": lambda run: run.evaluation.get("domains") or {}})
    said = "The accuracy on every domain in the last evaluated round, a mean over seeds."
    return heatmap("domains", "Accuracy per domain", said, "", found, "Domain") if found else None


def confusion(group: Group) -> PageSection:
    """Show what is taken for what."""
    options = []
    for name, runs in group.runs.items():
        names = next((class_names(run) for run in runs.values() if run.config), [])
        tables = [run.evaluation.get("confusion", []) for run in runs.values()]
        found = [table for table in tables if table and len(table) == len(names)]
        if found:
            total = [
                [sum(cells) for cells in zip(*lines, strict=True)]
                for lines in zip(*found, strict=True)
            ]
            shares = [[brief(cell / max(1, sum(line))) for cell in line] for line in total]
            label = group.labels[name]
            options.append({"label": label, "x": names, "y": names, "z": shares})
    said = "How a true class (row) was answered (column): shares of the class, over all seeds."
    none = "The summary of a run with one label per sample has its confusion; none is here yet."
    return heatmap("confusion", "Confusion", said, none, options, "Answer", "True class")


def holdings(group: Group) -> PageSection:
    """Show which client holds how many samples of which class."""
    options, remarks = [], []
    for seed in group.outcome.seeds:
        run = next(
            (row[seed] for row in group.runs.values() if seed in row and row[seed].config), None
        )
        found: Holding | str = find_holding(run) if run else "no run has begun"
        if isinstance(found, str):
            remarks.append(f"Seed {seed}: {found}.")
        else:
            known = run.names if run else {}
            names = [known.get(client, str(client)) for client in range(len(found.counts))]
            options.append(
                {"label": f"Seed {seed}", "x": list(found.classes), "y": names, "z": found.counts}
            )
        if run and shares_samples(run):
            remarks.append(
                f"Clients share samples: with {run.config['partition']} each draws its own from the"
                " whole set, so several may hold the same one."
            )
    said = "Training samples of every class by client, split again from the recorded settings."
    none = "No run tells who holds what:"
    drawn = heatmap(
        "holdings", "Who holds what", said, none, options, "Class", "Client", percent=False
    )
    return replace(drawn, html=join((drawn.html, bullets(list(dict.fromkeys(remarks))))))


def matrices(group: Group, values: Mapping[str, Found]) -> list[dict[str, Any]]:
    """Make a matrix of rows by named values of every kind of which there are any."""
    made = (matrix(group, label, find) for label, find in values.items())
    return [option for option in made if option["z"]]


def matrix(group: Group, label: str, find: Found) -> dict[str, Any]:
    """Make a matrix of rows by named values, each a mean over seeds."""
    means = {
        number: DataFrame([find(run) for run in runs.values()]).astype(float).mean().dropna()
        for number, runs in enumerate(group.runs.values())
    }
    rows = {number: row for number, row in means.items() if len(row)}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row.index))
    cells = [[brief(row[key]) if key in row else None for key in columns] for row in rows.values()]
    names = [list(group.labels.values())[number] for number in rows]
    return {"label": label, "x": columns, "y": names, "z": cells, "series": list(rows)}


def heatmap(
    key: str,
    title: str,
    said: str,
    none: str,
    options: Sequence[dict[str, Any]],
    across: str,
    down: str = "Methods",
    percent: bool = True,
) -> PageSection:
    """Make a section of one heat map, with a choice where there are several.

    `said` explains it, and `none` stands in its place where there is nothing to draw.
    """
    if not options:
        return PageSection(key, title, element("p", none))
    spec = {"kind": "heatmap", "label": title, "options": list(options), "percent": percent}
    spec |= {"x": across, "y": down}
    tables = join(_numbers(option, across, down, percent) for option in options)
    return plot_section(key, title, said, tables, spec)


def class_names(run: ReportedRun) -> list[str]:
    """The names of the classes of a run."""
    return [str(name) for name in run.config.get("resolved", {}).get("class_names", [])]


def _numbers(option: Mapping[str, Any], across: str, down: str, percent: bool) -> Html:
    """Write a heat map as a table; of very many rows or columns, some that are evenly spread."""
    columns = spread_out(len(option["x"]), SHOWN)
    lines = [
        (option["y"][place], option["z"][place]) for place in spread_out(len(option["y"]), SHOWN)
    ]
    rows = [
        [name, *(_say_cell(cells[column], percent) for column in columns)] for name, cells in lines
    ]
    some = ", some of them" if max(len(option["x"]), len(option["y"])) > SHOWN else ""
    caption = f"{option['label']}{', per cent' * percent}; columns: {across.lower()}{some}"
    return table(caption, (down, *(option["x"][column] for column in columns)), rows)


def _say_cell(number: float | None, percent: bool) -> str:
    if number is None:
        return "-"
    return f"{100 * number:.1f}" if percent else str(number)


def _recall(run: ReportedRun) -> Mapping[str, float | None]:
    recall = run.evaluation.get("recall") or []
    return dict(zip(class_names(run), recall, strict=False))


def _client_score(name: str) -> Found:
    """Find the last score of every client; with partial participation these are of other rounds."""

    def find(run: ReportedRun) -> Mapping[str, float | None]:
        found: dict[int, float] = {}
        for line in run.rounds:
            for client in line.get("clients", []):
                if client.get(name) is not None:
                    found[int(client["partition"])] = float(client[name])
        return {run.names.get(client, str(client)): found[client] for client in sorted(found)}

    return find


@dataclass(frozen=True)
class Holding:
    """Samples of every class by client."""

    classes: tuple[str, ...]
    counts: list[list[int]]
    sizes: list[int]
    fingerprint: str  # of the data set that was split


def find_holding(run: ReportedRun) -> Holding | str:
    """Split the data of a run again; a sentence says why that is not possible.

    Nodes with data of their own are given none of it, which their numbers of samples show.
    """
    usual = defaults()
    deciding = tuple((key, run.config.get(key, usual[key])) for key in DECIDING)
    found = _divide(deciding)
    if isinstance(found, str):
        return found
    if found.fingerprint != run.config.get("resolved", {}).get("fingerprint", found.fingerprint):
        return "the data at hand are not those of the run"
    told = {
        int(client["partition"]): client["examples"]
        for line in run.rounds
        for client in line.get("clients", [])
        if client.get("examples")
    }
    fits = all(
        client < len(found.sizes) and examples <= found.sizes[client]
        for client, examples in told.items()
    )
    return found if fits else "clients reported other data than were split, so they have their own"


def shares_samples(run: ReportedRun) -> bool:
    """Whether several clients of a run may hold the same sample."""
    name = str(run.config.get("partition", "")).partition("(")[0].strip()
    return name in PARTITIONS and PARTITIONS[name].shares_samples


@lru_cache(maxsize=32)
def _divide(deciding: tuple[tuple[str, Any], ...]) -> Holding | str:
    # Imported here, because a page without any run need not wait for torch.
    from fedmirage.common.data.heterogeneity import class_table
    from fedmirage.common.data.loading import load
    from fedmirage.common.data.partitions.named import divide

    try:
        config = configure(defaults(), dict(deciding))
        data = load(config.dataset, config.data_dir or None)
        number = len(data.classes)
        parts = divide(config, data)
    except (FedmirageError, OSError) as error:
        return f"the data are not at hand here ({reason(error)})"
    if len(parts) * number > LARGEST:
        return f"{len(parts)} clients times {number} classes are too many to show"
    counts = class_table(data.train, parts, number).tolist()
    sizes = [len(part) for part in parts]
    return Holding(tuple(data.classes), counts, sizes, data.fingerprint)
