"""Runs side by side: how each of them ended, and what distinguishes their settings."""

from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.records.lines import Lines, read_record, summarise_so_far
from fedmirage.server.record.shown import AVERAGE, SHARD
from fedmirage.show.progress import site_scores

SCORES = ("final_accuracy", "best_accuracy", "last5_accuracy")
WHAT = ("methods", "dataset", "partition", "model", "clients", "rounds", "seed")
RecordedRun = tuple[Path, dict[str, Any], Lines]


def load_runs(folders: list[Path]) -> tuple[list[RecordedRun], list[str]]:
    """Return folder, configuration and all lines of every run, and what is damaged.

    Folders without results are refused.
    """
    runs, damaged = [], []
    for folder in folders:
        try:
            runs.append((folder, read_record(folder)))
        except DataError as error:
            damaged.append(f"{error}; it is left out")
    empty = [str(folder) for folder, lines in runs if not lines]
    if empty:
        raise FedmirageError(
            f"there are no results in {', '.join(empty)}; give the folders of runs (--out)"
        )
    if not runs:
        raise FedmirageError("; ".join(damaged))
    return [(folder, lines[0], lines) for folder, lines in runs], damaged


def lay_out_runs(folders: list[Path]) -> Group:
    """Make two lines per run, its metrics and its own settings; remarks about runs come last.

    A run that scored its local models has one line more, and so has a run on several domains.
    """
    runs, damaged = load_runs(folders)
    differ = [key for key in WHAT if len({str(config.get(key)) for _, config, _ in runs}) > 1]
    common = [key for key in WHAT if key not in differ]
    shown = [Text("all: " + _settings(runs[0][1], common))] if common else []
    head = ("run", "rounds", "final %", "best %", "last5 %", "MB up", "ended")
    shown.append(_line(_row(*head), "bold"))
    remarks = []
    for folder, config, lines in runs:
        end = summarise_so_far(lines)
        scores = [_percent(end[key]) for key in SCORES]
        cells = (str(end["rounds"]), *scores, f"{end['bytes_up'] / 1e6:.1f}", end["status"])
        shown.append(_line(_row(folder.name, *cells)))
        sites = end.get("final_held_out", {})
        shown += [_line(f"  {name}: {text}") for name, text in site_scores(sites).items()]
        shown += [_line(f"  {text}") for text in _local(end["final_evaluation"])]
        shown += [_line("  " + _settings(config, differ), "dim")] if differ else []
        shown += _domains(end["final_evaluation"])
        idle = [f"{name} never acted: {why}" for name, why in end.get("idle", {}).items()]
        remarks += [(folder.name, text) for text in [*idle, *end.get("notes", [])]]
    said = [f"{name}: {text}" for name, text in remarks] + damaged
    return Group(*shown, *(Text(text, style="yellow") for text in said))


def _domains(evaluation: dict[str, Any]) -> list[Text]:
    """List the final accuracy on every domain, after their unweighted mean; nothing without any."""
    if "domains" not in evaluation:
        return []
    each = [f"{name} {_percent(value)}" for name, value in evaluation["domains"].items()]
    mean = _percent(evaluation.get("accuracy_domain_mean"))
    return [Text(f"  mean over domains {mean}: {', '.join(each)}")]


def _local(evaluation: dict[str, Any]) -> list[str]:
    """Describe the scores of the local models in one line, if there are any."""
    texts = []
    if SHARD in evaluation:
        texts.append(f"local models {_percent(evaluation[SHARD])} % on test shards")
    if AVERAGE in evaluation:
        texts.append(f"their average {_percent(evaluation[AVERAGE])} % on the test set")
    return [", ".join(texts)] if texts else []


def _percent(score: float | None) -> str:
    return "-" if score is None else f"{100 * score:.2f}"


def _settings(config: dict[str, Any], keys: list[str]) -> str:
    """List some settings; numbers are given with their names, texts explain themselves."""
    return ", ".join(
        str(value) if isinstance(value := config.get(key), str) else f"{key} {value}"
        for key in keys
    )


def _row(name: str, *cells: str) -> str:
    """Arrange cells within 80 columns."""
    short = name if len(name) <= 26 else f"{name[:25]}…"
    *numbers, status = cells
    return f"{short:26}" + "".join(f"{cell:>8}" for cell in numbers) + f"  {status}"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
