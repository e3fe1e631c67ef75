"""How far the runs of a queue are, and how long the rest will take."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table as Shown

from fedmirage.common.errors import DataError
from fedmirage.comparison.plan import Job
from fedmirage.comparison.runs import is_over
from fedmirage.records.lines import find_summary, is_finished, read_record
from fedmirage.show.words import make_table, say_time


def show_state(
    jobs: Sequence[Job], at_once: int, failed: Mapping[str, str], recorded: Collection[Path] = ()
) -> Shown:
    """Lay out all runs: how far each is, what a round took, and what is left."""
    seconds = {job.folder: mean_seconds(job.folder) for job in jobs}
    left = {
        job.folder: 0.0 if job.folder in recorded else time_left(job, jobs, seconds) for job in jobs
    }
    known = [value for value in left.values() if value is not None]
    total = say_time(sum(known) / at_once) if known else "unknown, as no round is done"
    if len(known) < len(jobs):
        total += f" and {len(jobs) - len(known)} runs of unknown length" if known else ""
    done = sum(job.folder in recorded or is_over(job) for job in jobs)
    title = f"{done} of {len(jobs)} runs finished; left: {total}, {at_once} at a time"
    numbers = ("rounds", "s per round", "left")
    shown = make_table(("run", *numbers, "state"), numbers, title)
    for job in jobs:
        rate, rest = seconds[job.folder], left[job.folder]
        shown.add_row(
            str(job),
            f"{last_round(job)}/{job.config.rounds}",
            "-" if rate is None else f"{rate:.1f}",
            "-" if rest is None else say_time(rest),
            state(job, failed, recorded),
        )
    return shown


def state(job: Job, failed: Mapping[str, str], recorded: Collection[Path]) -> str:
    """Say in words how a run stands."""
    try:
        if job.folder in recorded:
            return "recorded"
        if is_finished(job.folder, job.config.rounds):
            return "finished"
        if job.folder.name in failed:
            return f"failed: {failed[job.folder.name]}"
        summary = find_summary(job.folder)
        if summary.get("status") == "failed":
            return f"failed: {summary.get('reason', 'no reason is known')}"
        return "begun" if read_record(job.folder) else "waiting"
    except DataError as error:
        return f"failed: {error}"


def last_round(job: Job) -> int:
    """Return the last round that a run has done or taken over."""
    begun = job.config.rounds - job.rounds
    return max([begun, *(int(line["round"]) for line in own_rounds(job.folder))])


def own_rounds(folder: Path) -> list[dict[str, Any]]:
    """Read the rounds that a run did itself; a damaged file has none."""
    try:
        return [line for line in read_record(folder) if line["kind"] == "round"]
    except DataError:
        return []


def mean_seconds(folder: Path) -> float | None:
    """Return the seconds of a round so far, on average; None before the first."""
    seconds = [line["seconds"]["round"] for line in own_rounds(folder)]
    return statistics.fmean(seconds) if seconds else None


def time_left(job: Job, jobs: Sequence[Job], seconds: Mapping[Path, float | None]) -> float | None:
    """Estimate the seconds that are left of a run: by itself, by its methods, or by all others."""
    rounds = 0 if is_over(job) else job.config.rounds - last_round(job)
    same = [seconds[one.folder] for one in jobs if one.row == job.row]
    for rates in ([seconds[job.folder]], same, list(seconds.values())):
        found = [rate for rate in rates if rate is not None]
        if found or not rounds:
            return rounds * statistics.fmean(found) if found else 0.0
    return None
