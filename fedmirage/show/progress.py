"""Shows the progress of a run from results.jsonl, which every runtime writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedmirage.common.errors import TRACEBACK
from fedmirage.common.wire.metrics import FURTHER_SCORES, SHARD_SCORES
from fedmirage.records.lines import read_names
from fedmirage.server.record.results import FILE, read_results
from fedmirage.server.record.shown import (
    SITE_MEANS,
    describe_scores,
    describe_sites,
    fold,
    local_scores,
)
from fedmirage.server.strategy.budget import spent
from fedmirage.show.bar import Follower, is_interactive
from fedmirage.show.words import say

NOTES = 5  # notes that the summary's table shows
SCORES = {"final_accuracy": "final accuracy", "best_accuracy": "best accuracy"}
SCORES |= {"last5_accuracy": "mean of the last five"}


class Watch(Follower):
    """Shows the rounds of a run: a bar in a terminal, one line per round elsewhere."""

    pause = 0.2

    def __init__(self, console: Console, folder: Path, rounds: int) -> None:
        self.path, self.rounds = folder / FILE, rounds
        self.shown = self.size = 0  # lines that were shown, and the size of the file at that time
        self.moves = is_interactive(console)  # whether there is a bar
        self.names: dict[int, str] = {}  # of sites, by partition
        self.traceback, self.raised = folder / TRACEBACK, ""
        counted = (
            progress.TextColumn("rounds"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
        )
        times = (progress.TimeElapsedColumn(), progress.TimeRemainingColumn())
        columns = (*counted, progress.TextColumn("{task.description}"), *times)
        super().__init__(console, "starting", rounds, columns)

    def make_room(self) -> None:
        """Leave the terminal to a debugger; from now on, lines take the place of the bar."""
        self.moves = False
        self.progress.stop()

    def look(self) -> None:
        """Show the lines that are new, and a traceback as soon as there is one."""
        self._look_for_traceback()
        size = self.path.stat().st_size if self.path.exists() else 0
        # Most looks find nothing new, and parsing hundreds of rounds takes time from the clients.
        if size == self.size:
            return
        self.size = size
        lines = read_results(self.path)
        self.shown = min(self.shown, len(lines))  # a resumed run may take lines back
        for line in lines[self.shown :]:
            self._show(line)
        self.shown = len(lines)

    def _look_for_traceback(self) -> None:
        """Show the first exception in the run's code, as soon as it is there."""
        if not self.raised and self.traceback.exists():
            self.raised = self.traceback.read_text()
            if self.raised:
                self.console.print(self.raised, highlight=False, markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a text in yellow; it comes from elsewhere, so nothing in it is read as markup."""
        self.console.print(text, style="yellow", highlight=False, markup=False)

    def _show(self, line: dict[str, Any]) -> None:
        self.names |= read_names([line])
        for who, reason in fold(line.get("refused", []), self.names).items():
            self.warn(f"round {line['round']}: left out, {who}: {reason}")
        if line["kind"] == "retry":
            self.warn(f"{line['reason']} (try {line['attempt']})")
        elif line["kind"] == "note" and not line.get("progress"):
            self.warn(f"round {line['round']}: {line['text']}")
        elif line["kind"] == "note":
            self._advance(f"round {line['round']}: ", line["text"])
        elif line["kind"] == "config":
            self.progress.update(self.task, description="waiting for the clients")
        elif line["kind"] == "round":
            self.progress.update(self.task, completed=line["round"])
            self._advance(f"round {line['round']}/{self.rounds}: ", describe_scores(line))
        elif line["kind"] == "held_out":
            self._advance("", describe_sites(line))

    def _advance(self, when: str, text: str) -> None:
        """Show what happens beside the bar, or on a line of its own where there is no bar."""
        self.progress.update(self.task, description=text)
        if not self.moves:
            self.console.print(f"{when}{text}", highlight=False, markup=False)


def class_scores(evaluation: dict[str, Any]) -> dict[str, str]:
    """Describe what an accuracy hides.

    That is the accuracy over all outputs of a widened head (the headline is over the real classes),
    balanced accuracy, macro-F1, the area under the ROC curve, the worst class, the accuracy per
    domain, and the spread of the local models.
    """
    labels = {"accuracy_all_outputs": "accuracy over all outputs", **FURTHER_SCORES}
    known = {name: label for name, label in labels.items() if evaluation.get(name) is not None}
    shown = {label: percent(evaluation[name]) for name, label in known.items()}
    if "worst_recall" in evaluation:
        recall = percent(evaluation["worst_recall"])
        shown["worst class"] = f"{evaluation['worst_class']}, recall {recall}"
    for name, value in evaluation.get("domains", {}).items():
        shown[f"accuracy on {name}"] = percent(value)
    if "accuracy_domain_mean" in evaluation:
        shown["mean over domains"] = percent(evaluation["accuracy_domain_mean"])
    if f"{SHARD_SCORES}worst.accuracy" in evaluation:
        worst, best, std = (
            percent(evaluation[f"{SHARD_SCORES}{name}.accuracy"])
            for name in ("worst", "best", "std")
        )
        shown["clients' models"] = f"{worst} to {best}, standard deviation {std}"
    return shown


def site_scores(line: Mapping[str, Any]) -> dict[str, str]:
    """Describe what the last model scores on what the sites hold out: the headline without data on
    the server."""
    if not line:
        return {}
    whose = "" if line["model"] == "global" else "own models, "
    shown = {
        f"accuracy at the sites, {whose}{label}": percent(line[kind]["accuracy"])
        for kind, label in SITE_MEANS.items()
        if line[kind]
    }
    held, all_sites = line["holding"], line["holding"] + line["without"]
    counted = f"{held} of {all_sites} sites, {line['examples']} samples"
    return shown | {"held-out data": counted}


def percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:.2f} %"


def show_summary(console: Console, summary: dict[str, Any], folder: Path) -> None:
    """Show how a run ended, and where its results are.

    The path is on a line of its own, so that a narrow terminal does not cut it.
    """
    console.print(summary_table(summary))
    say(console, f"results: {folder}")


def summary_table(summary: dict[str, Any]) -> Table:
    """Make a table of how a run ended."""
    title = f"{summary['status']} after round {summary['rounds']}"
    table = Table(show_header=False, title=title, title_justify="left")
    for name, label in SCORES.items():
        if summary.get(name) is not None:
            table.add_row(label, percent(summary[name]))
    for label, text in site_scores(summary.get("final_held_out", {})).items():
        table.add_row(label, text)
    for name, value in local_scores(summary.get("final_evaluation", {})).items():
        table.add_row(name, percent(value))
    for name, text in class_scores(summary.get("final_evaluation", {})).items():
        table.add_row(name, Text(text))
    if "target_accuracy" in summary:
        reached = summary["rounds_to_target"]
        label = f"rounds to {percent(summary['target_accuracy'])}"
        table.add_row(label, "not reached" if reached is None else str(reached))
    if "best_round" in summary:
        loss = f"loss {summary['best_validation_loss']:.4f}"
        table.add_row("best by validation", f"round {summary['best_round']}, {loss}")
    if "dp" in summary:
        table.add_row("privacy spent", spent(summary["dp"]))
    up, down = (f"{summary[name] / 1e6:.2f} MB" for name in ("bytes_up", "bytes_down"))
    table.add_row("sent up / down", f"{up} / {down}")
    if "seconds" in summary:
        table.add_row("seconds", f"{summary['seconds']:.1f}")
    for name, why in summary.get("idle", {}).items():
        table.add_row(f"{name} never acted", Text(why, style="yellow"))
    notes = summary.get("notes", [])
    for note in notes[:NOTES]:
        table.add_row("note", Text(note, style="yellow"))
    if len(notes) > NOTES:
        table.add_row("note", f"and {len(notes) - NOTES} more in {FILE}")
    if "reason" in summary:
        table.add_row("reason", Text(str(summary["reason"])))
    return table
