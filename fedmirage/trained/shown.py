"""Shows an evaluation: tables in a terminal, and a picture of how well it is calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fedmirage.common.errors import DataError
from fedmirage.show.words import make_table, say

NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "auc": "ROC area",
    "ece": "calibration error (ECE)",
    "loss": "loss",
}
MOST_CLASSES = 20  # in the confusion matrix; of more, the classes with the worst recall are listed
NUMBERS = ("samples", "recall", "accuracy", "interval")


def show_evaluation(console: Console, found: dict[str, Any]) -> None:
    """Print all tables of an evaluation, and what a reader must know."""
    say(console, f"{found['samples']} samples: {found['what']} of {found['dataset']}")
    console.print(show_scores(found))
    console.print(show_recall(found["classes"]))
    for column, groups in found["groups"].items():
        console.print(show_groups(column, groups))
    if len(found.get("confusion", [])) in range(1, MOST_CLASSES + 1):
        console.print(show_confusion([one["name"] for one in found["classes"]], found["confusion"]))
    for sentence in [*found["remarks"], *explain(found["bootstrap"])]:
        say(console, sentence)


def show_scores(found: dict[str, Any]) -> Table:
    """Lay out the scores of all samples together."""
    table = make_table(["score", "value", "interval"], ["value", "interval"])
    for name, told in found["scores"].items():
        table.add_row(NAMES[name], *tell(told))
    return table


def show_recall(classes: Sequence[dict[str, Any]]) -> Table:
    """Lay out the recall of each class; of many, of those that are known worst."""
    known = [one for one in classes if one["recall"]["value"] is not None]
    worst = sorted(known, key=lambda one: float(one["recall"]["value"]))[:MOST_CLASSES]
    many = len(classes) > MOST_CLASSES
    title = f"the {len(worst)} classes with the worst recall" if many else None
    table = make_table(["class", "samples", "recall", "interval"], NUMBERS, title)
    for one in worst if many else classes:
        table.add_row(one["name"], str(one["samples"]), *tell(one["recall"]))
    return table


def show_groups(column: str, groups: Sequence[dict[str, Any]]) -> Table:
    """Lay out the accuracy on each site, domain, or other group."""
    table = make_table([column, "samples", "accuracy", "interval"], NUMBERS)
    for one in groups:
        table.add_row(one["name"], str(one["samples"]), *tell(one["accuracy"]))
    return table


def show_confusion(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> Table:
    """Lay out how often samples of a class (rows) got each answer (columns)."""
    table = make_table(["true \\ answer", *names], names)
    for name, row in zip(names, confusion, strict=True):
        table.add_row(name, *(str(count) if count else "." for count in row))
    return table


def tell(score: dict[str, float | None]) -> tuple[str, str]:
    """Write a score and its interval."""
    value, low, high = (score.get(key) for key in ("value", "low", "high"))
    interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return "-" if value is None else f"{value:.3f}", interval


def show_kept_runs(console: Console, memory: Path) -> None:
    """List the runs of which a node's memory can give a personal model."""
    from fedmirage.trained.personal import list_runs

    table = make_table(["run", "client", "methods", "data"], ["client"])
    for run, partition, kept in list_runs(memory):
        data = kept.places.get("data") or str(kept.settings.get("dataset", ""))
        table.add_row(run, str(partition), str(kept.settings.get("methods", "")), data)
    if not table.row_count:
        raise DataError(
            f"{memory} holds no run that left a part of the model here; name the node's memory with"
            " --memory"
        )
    console.print(table)


def explain(bootstrap: dict[str, Any]) -> list[str]:
    """Say what the intervals mean."""
    if not bootstrap["resamples"]:
        return []
    return [
        f"{bootstrap['level']:.0%} intervals from {bootstrap['resamples']} bootstrap resamples of"
        f" these samples (seed {bootstrap['seed']}): what other samples of the same kind would"
        " give. They do not say what training with another seed would give."
    ]


def draw_reliability(found: dict[str, Any], path: Path) -> Path:
    """Draw how often predictions came true, by their probability, and how many there are."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 6), layout="constrained")
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    bins = [one for one in found["calibration"] if one["count"]]
    axes.plot([0, 1], [0, 1], "--", color="grey", label="calibrated")
    sure, came_true = ([one[key] for one in bins] for key in ("probability", "frequency"))
    error = found["scores"]["ece"]["value"]
    axes.plot(sure, came_true, "o-", color="C0", label=f"this model (ECE {error:.3f})")
    axes.set(ylabel="share that came true", ylim=(0, 1), xlim=(0, 1))
    axes.legend(fontsize=8)
    width = bins[0]["to"] - bins[0]["from"]
    below.bar([one["from"] for one in bins], [one["count"] for one in bins], width, align="edge")
    below.set(xlabel="probability that the model gave", ylabel="predictions")
    for part in (axes, below):
        part.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path
