"""Reads results.jsonl of runs, and refuses damaged files by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedmirage.common.errors import DataError
from fedmirage.common.own_methods import nothing_imported
from fedmirage.common.settings.config import RunConfig, configure, defaults
from fedmirage.server.record.results import FILE, read_results, summarise

Lines = list[dict[str, Any]]


def read_record(folder: Path) -> Lines:
    """Read all lines of a run; a last line that a kill left incomplete is left out."""
    lines = read_results(folder / FILE)
    if failed_early(lines):
        raise DataError(f"{folder}: the run failed before it began: {lines[0].get('reason')}")
    if lines and lines[0]["kind"] != "config":
        raise DataError(f"{folder / FILE} is damaged: line 1 is not the configuration of a run")
    return lines


def failed_early(lines: Lines) -> bool:
    """Whether a run was refused by its own server, which leaves a summary and nothing else."""
    return [line["kind"] for line in lines] == ["summary"]


def recorded_settings(folder: Path) -> dict[str, Any]:
    """Return the settings with which a run began; none if it did not, or if its file is damaged."""
    try:
        return next(iter(read_record(folder)), {})
    except DataError:
        return {}


def read_config(folder: Path) -> RunConfig:
    """Read the settings of a run as a configuration, if this version still accepts them."""
    return config_of(recorded_settings(folder))


@nothing_imported()
def config_of(settings: Mapping[str, Any]) -> RunConfig:
    """Make the configuration of a run from the first line of its record."""
    usual = defaults()
    return configure({key: value for key, value in settings.items() if key in usual})


def read_rounds(folder: Path) -> Lines:
    """Read the lines of all rounds, those that were taken over from a neighbouring run included."""
    lines = read_record(folder)
    rounds = rounds_of(lines)
    source, _, taken = (lines[0]["warm-start"] if lines else "").rpartition("@")
    if not source:
        return rounds
    # A run elsewhere is no neighbour, even if one here has the same name as its folder.
    place = lines[0].get("out")
    if place and Path(source).parent != Path(place).parent:
        return rounds
    neighbour = folder.parent / Path(source).name  # both folders may have been moved together
    if neighbour == folder or not taken.isdecimal() or not (neighbour / FILE).exists():
        return rounds
    return [line for line in read_rounds(neighbour) if line["round"] <= int(taken)] + rounds


def rounds_of(lines: Lines) -> Lines:
    """Return the lines of rounds, each with what the sites say of its model under `held_out`.

    That is known one round later, so results.jsonl has it in a line of its own.
    """
    scored = {line["round"]: line for line in lines if line["kind"] == "held_out"}
    return [
        {**line, "held_out": scored[line["round"]]} if line["round"] in scored else line
        for line in lines
        if line["kind"] == "round"
    ]


def read_names(lines: Lines) -> dict[int, str]:
    """Return the names of sites, by partition, as the last of these lines know them."""
    told = [line["sites"] for line in lines if line.get("sites")]
    return {int(partition): name for names in told for partition, name in names.items()}


def find_summary(folder: Path) -> dict[str, Any]:
    """Return the last line of a run that is over; nothing for any other."""
    lines = read_results(folder / FILE)
    last = next(iter((lines if failed_early(lines) else read_record(folder))[-1:]), {})
    return last if last.get("kind") == "summary" else {}


def is_finished(folder: Path, rounds: int) -> bool:
    """Whether a run has nothing left to do until this round."""
    summary = find_summary(folder)
    over = summary.get("stopped_early") or summary.get("rounds", 0) >= rounds
    return summary.get("status") == "finished" and bool(over)


def summarise_so_far(lines: Lines) -> dict[str, Any]:
    """Return the summary of a run; for a run that has none yet, summarise it as far as it is."""
    summaries = [line for line in lines if line["kind"] == "summary"]
    return {**summarise(lines), "status": "unfinished", **(summaries[-1] if summaries else {})}
