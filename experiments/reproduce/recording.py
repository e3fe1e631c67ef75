"""What a queue has to do with recorded runs: it leaves them out, and records what it finishes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from common.errors import FedmirageError
from experiments.comparison.plan import Job
from experiments.comparison.records import recorded_settings
from experiments.comparison.runs import is_over
from experiments.reproduce.jobs import numbers_of
from experiments.reproduce.records import record_run


def without_recorded(jobs: Sequence[Job], results: Path | None) -> list[Job]:
    """Return the runs that are neither recorded nor finished, and those from which they begin."""
    by_folder = {job.folder: job for job in jobs}
    needed: set[Path] = set()
    for job in jobs:
        known = is_over(job) or (results is not None and has_record(job, results))
        one = None if known else job
        while one is not None:
            needed.add(one.folder)
            one = by_folder.get(one.parent) if one.parent else None
    return [job for job in jobs if job.folder in needed]


def done_before(jobs: Sequence[Job], results: Path | None) -> set[Path]:
    """Return the folders of recorded runs that need not be repeated."""
    needed = {job.folder for job in without_recorded(jobs, results)}
    return {
        job.folder
        for job in jobs
        if results is not None and job.folder not in needed and has_record(job, results)
    }


def has_record(job: Job, results: Path) -> bool:
    """Whether the run of this name was recorded with these settings, and up to the last round."""
    settings = recorded_settings(results / "runs" / job.folder.name)
    recorded = numbers_of(settings)
    # A setting that is younger than the recorded run had no effect on it.
    return settings.get("seed") == job.config.seed and all(
        recorded.get(key, value) == value for key, value in numbers_of(job.config.flat()).items()
    )


def record_finished(jobs: Sequence[Job], results: Path | None) -> Iterator[str]:
    """Record all runs that are finished and not recorded yet, and say so, one sentence per run.

    A run comes after the one from which it begins, because its record needs that of the other.
    """
    if results is None:
        return
    waiting = [job for job in jobs if is_over(job) and not has_record(job, results)]
    while waiting:
        begun_from = {job.folder for job in waiting}
        for job in [job for job in waiting if job.parent not in begun_from]:
            waiting.remove(job)
            try:
                yield f"recorded: {record_run(job.folder, job.folder.name, results)}"
            except FedmirageError as error:
                yield f"not recorded: {error}"
