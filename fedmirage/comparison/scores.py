"""What runs of a comparison reached, from their records, and which choice that makes."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedmirage.common.errors import DataError
from fedmirage.common.wire.metrics import AVERAGE_SCORES, TEST_SHARD
from fedmirage.comparison.plan import Job
from fedmirage.comparison.rows import GLOBAL, LOCAL, METRICS, SCORES, SITES, Choice, choice_of
from fedmirage.records.lines import find_summary, read_rounds

LAST = 5  # evaluated rounds in the headline score


@dataclass(frozen=True)
class Score:
    """What one run reached."""

    metric: str  # which score is compared
    values: dict[str, list[tuple[int, float]]]  # by metric: rounds, and what they scored
    lines: list[dict[str, Any]] = field(repr=False)
    averaged: bool  # whether they are those of the average of the local models
    remarks: list[str]
    seconds: float = 0.0  # what it took by the clock, without rounds that it took over

    @property
    def final(self) -> float:
        """The score in the last round."""
        return self.values[self.metric][-1][1]

    @property
    def last_five(self) -> float:
        """The mean score of the last five rounds that were evaluated."""
        return statistics.fmean(value for _, value in self.values[self.metric][-LAST:])

    def by(self, metric: str) -> "Score | None":
        """Return the same run with another score; None if it has no such score."""
        return replace(self, metric=metric) if self.values[metric] else None

    @property
    def drift(self) -> float | None:
        """How far clients drift apart, in the last five rounds; only --diagnostics knows."""
        found = [line.get("diagnostics", {}).get("drift") for line in self.lines]
        drifts = [drift for drift in found if drift is not None]  # it may have been infinite
        return statistics.fmean(drifts[-LAST:]) if drifts else None

    def reach(self, target: float) -> dict[str, float] | None:
        """Count rounds, bytes and seconds until a score; None if it was never reached."""
        scored = self.values[self.metric]
        at = next((number for number, value in scored if value >= target), None)
        if at is None:
            return None
        lines = [line for line in self.lines if line["round"] <= at]
        sent = sum(line["bytes_up"] + line["bytes_down"] for line in lines)
        seconds = sum(line["seconds"]["round"] for line in lines)
        return {"rounds": at, "bytes": sent, "seconds": seconds}


def read_score(folder: Path, score: str = GLOBAL) -> Score | None:
    """Read what a run reached; None if it has no such score on the test set.

    A method that shares only a part of the model has no global one. What is scored then is the
    average of the local models, which for FedAvg would be the global model.
    """
    lines, summary = read_rounds(folder), find_summary(folder)
    values = {
        metric: [
            (int(line["round"]), value)
            for line in lines
            if (value := score_of(line, metric, score)) is not None
        ]
        for metric in METRICS
    }
    metric, own = SCORES[score], {line["round"]: line.get("accuracy") for line in lines}
    averaged = score not in (LOCAL, *SITES) and any(
        own[number] is None for number, _ in values[metric]
    )
    idle = [f"{name} never acted: {why}" for name, why in summary.get("idle", {}).items()]
    seconds = float(summary.get("seconds", 0.0))
    return Score(metric, values, lines, averaged, idle, seconds) if values[metric] else None


def score_of(line: dict[str, Any], name: str, score: str = GLOBAL) -> float | None:
    """Return a score of a round: the global model's, or else that of the local models' average.

    That of local models is the mean of what each of them scores on its own shard of the test set;
    the sites' are means over what they hold out.
    """
    evaluation = line.get("evaluation", {})
    if score in SITES:
        value = line.get("held_out", {}).get(SITES[score], {}).get(name)
    elif score == LOCAL:
        value = evaluation.get(f"{TEST_SHARD}{name}")
    else:
        value = line.get(name, evaluation.get(name))
        value = evaluation.get(f"{AVERAGE_SCORES}{name}") if value is None else value
    return None if value is None else float(value)


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
