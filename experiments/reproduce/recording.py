"""The state of a queue: how far its runs are, which are recorded, and which it repeats."""

import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table as Shown

from experiments.reproduce.jobs import numbers_of
from experiments.reproduce.records import record_run
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.comparison.plan import Job
from fedmirage.comparison.runs import is_over
from fedmirage.records.lines import find_summary, is_finished, read_record, recorded_settings
from fedmirage.server.record import checkpoint
from fedmirage.server.record.folder import claim
from fedmirage.show.words import make_table, say_time


def leave_out_recorded(jobs: Sequence[Job], results: Path | None) -> list[Job]:
    """Return the runs that are neither recorded nor finished, and those from which they begin.

    A run that has begun goes on from its own checkpoint, and needs nothing of its parent any more.
    A run that only saves time by another one's rounds does without them if that one is recorded,
    because a record has no checkpoint.
    """
    by_folder = {job.folder: job for job in jobs}
    needed: set[Path] = set()
    for job in jobs:
        one = None if is_over(job) or has_record(job, results) else job
        while one is not None:
            needed.add(one.folder)
            waits = one.needs_parent and not has_begun(one)
            one = by_folder[one.parent] if one.parent and waits else None
    # What starts alone begins with round 1, or goes on from its own checkpoint if it has one.
    return [
        replace(job, config=job.config.model_copy(update={"warm_start": ""}), parent=None)
        if job.parent and job.parent not in needed and not is_over(by_folder[job.parent])
        else job
        for job in jobs
        if job.folder in needed
    ]


def set_aside_without_models(jobs: Sequence[Job]) -> Iterator[str]:
    """Set runs aside that keep no model of a round from which others begin; say so of each.

    They were begun before the queue had these others, and would go on without keeping models. They
    are repeated instead. A model of the last round is kept by every run.
    """
    by_folder = {job.folder: job for job in jobs}
    for job in jobs:
        parent = by_folder.get(job.parent) if job.parent else None
        if parent is None or not job.needs_parent or has_begun(job):
            continue
        begun = recorded_settings(parent.folder)
        taken = int(job.config.warm_start.rpartition("@")[2])
        if begun.get("keep-models", "all") == "all" or taken == parent.config.rounds:
            continue
        aside = parent.folder.with_name(f"{parent.folder.name}.{time.strftime('%Y%m%d-%H%M%S')}")
        with claim(parent.folder):
            parent.folder.rename(aside)
        yield (
            f"{parent} is repeated: it kept no model of round {taken}, from which {job} begins;"
            f" what it had is in {aside}"
        )


def has_begun(job: Job) -> bool:
    """Whether a run has a checkpoint from which it goes on."""
    return (job.folder / checkpoint.FILE).exists()


def find_recorded(jobs: Sequence[Job], results: Path | None) -> set[Path]:
    """Return the folders of recorded runs that need not be repeated."""
    needed = {job.folder for job in leave_out_recorded(jobs, results)}
    return {job.folder for job in jobs if job.folder not in needed and has_record(job, results)}


def has_record(job: Job, results: Path | None) -> bool:
    """Whether the run is recorded under its name."""
    return results is not None and has_done(job, results / "runs" / job.folder.name)


def has_done(job: Job, folder: Path) -> bool:
    """Whether a folder has all rounds of this run, with its settings and from its beginning."""
    settings = recorded_settings(folder)
    if not settings or settings["seed"] != job.config.seed:
        return False
    known = numbers_of({**configure({}).flat(), **settings})  # settings younger than the run
    same = all(known[key] == value for key, value in numbers_of(job.config.flat()).items())
    # A record names the run and the round, without the folder in which the run was.
    wanted, begun = Path(job.config.warm_start).name, Path(settings["warm-start"]).name
    begins = begun == wanted or not job.needs_parent
    try:
        return same and begins and is_finished(folder, job.config.rounds)
    except DataError:
        return False


def record_finished(jobs: Sequence[Job], results: Path | None) -> Iterator[str]:
    """Record all runs that are finished and not recorded yet, and say so, one sentence per run.

    A run comes after the one from which it begins, because its record needs that of the other.
    """
    if results is None:
        return
    waiting = [job for job in jobs if has_done(job, job.folder) and not has_record(job, results)]
    while waiting:
        begun_from = {job.folder for job in waiting}
        for job in [job for job in waiting if job.parent not in begun_from]:
            waiting.remove(job)
            try:
                yield f"recorded: {record_run(job.folder, job.folder.name, results)}"
            except (FedmirageError, OSError) as error:
                yield f"not recorded: {error}"


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
