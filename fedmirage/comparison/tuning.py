"""Chooses rates and schedules on validation data: the same ones are tried for every row."""

import statistics
from collections.abc import Sequence

from fedmirage.common.errors import DataError
from fedmirage.comparison.choices import Choice, choice_of
from fedmirage.comparison.plan import Job
from fedmirage.comparison.scores import LAST
from fedmirage.records.lines import read_rounds


def choose(trials: Sequence[Job]) -> dict[str, Choice]:
    """Choose for each row what gave the best mean validation accuracy of the last five rounds.

    The test set has no part in it. Of equally good ones the first is taken, which is nearest to the
    usual one. A row of which no trial was scored keeps the usual one.
    """
    best: dict[str, float] = {}
    chosen: dict[str, Choice] = {}
    for job in trials:
        score = validation_score(job)
        if score is not None and score > best.get(job.row.methods, float("-inf")):
            best[job.row.methods], chosen[job.row.methods] = score, choice_of(job.config)
    return chosen


def validation_score(job: Job) -> float | None:
    """Return the mean validation accuracy of a run's last five evaluated rounds."""
    try:
        lines = read_rounds(job.folder)
    except DataError:
        return None
    found = [line["validation"]["accuracy"] for line in lines if "validation" in line]
    return statistics.fmean(found[-LAST:]) if found else None
