"""From the records of runs to the numbers of a comparison."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.own_methods import nothing_imported
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.settings.language import parse
from fedmirage.comparison.plan import QUESTION, Job, Plan
from fedmirage.comparison.rows import FEDAVG, Choice, Question, check_score, choice_of
from fedmirage.comparison.scores import Score, read_score
from fedmirage.comparison.statistics import (
    Difference,
    Spread,
    judge_together,
    paired_difference,
    spread,
)
from fedmirage.records.lines import find_summary

FILE = "comparison.json"
COSTS = ("rounds", "bytes", "seconds")  # of reaching a target


@dataclass(frozen=True)
class ComparedLine:
    """A row of the table: a methods line with its rate and schedule, and the run of every seed."""

    name: str
    placebo: str  # the name of its placebo's row, or ""
    lr: float
    secagg: bool  # whether it can run with secure aggregation
    runs: dict[int, str]  # names of folders by seed
    is_line: bool = True  # whether the name is a methods line; FedAvg as it was given is none
    schedule: str = "constant"

    @property
    def choice(self) -> Choice:
        """Its learning rate and its schedule."""
        return Choice(self.lr, self.schedule)


@dataclass(frozen=True)
class Standing:
    """A row's scores by seed, and why it has none for other seeds."""

    entry: ComparedLine
    scores: dict[int, Score]
    failed: dict[int, str]

    @property
    def final(self) -> Spread | None:
        """The final score over seeds."""
        return spread([score.final for score in self.scores.values()])

    @property
    def last_five(self) -> Spread | None:
        """The mean score of the last five rounds over seeds."""
        return spread([score.last_five for score in self.scores.values()])

    @property
    def spreads(self) -> dict[str, Spread | None]:
        """What a row reached, by name."""
        return {"final": self.final, "last_five": self.last_five}

    def by(self, metric: str) -> "Standing":
        """Return the row with another score, and with those seeds alone that have it."""
        found = {seed: other for seed, one in self.scores.items() if (other := one.by(metric))}
        return replace(self, scores=found)

    @property
    def drift(self) -> Spread | None:
        """The clients' drift over seeds."""
        return spread([score.drift for score in self.scores.values() if score.drift is not None])

    def to_target(self, target: float) -> tuple[dict[str, float], int]:
        """Return the mean cost over the seeds that reached the target, and how many did."""
        reached = [cost for score in self.scores.values() if (cost := score.reach(target))]
        names = COSTS if reached else ()
        mean = {name: statistics.fmean(cost[name] for cost in reached) for name in names}
        return mean, len(reached)


@dataclass(frozen=True)
class Outcome:
    """A comparison that is over."""

    folder: Path
    settings: RunConfig
    seeds: tuple[int, ...]
    standings: tuple[Standing, ...]
    question: Question = QUESTION

    @cached_property
    def by_name(self) -> dict[str, Standing]:
        """The rows by their names."""
        return {standing.entry.name: standing for standing in self.standings}

    @cached_property
    def target(self) -> float | None:
        """The score to reach: the given one, or else the baseline's in the last five."""
        baseline = self.by_name.get(self.question.baseline)
        reference = baseline.last_five if baseline else None
        return self.given_target or (reference.mean if reference else None)

    @property
    def given_target(self) -> float:
        """The target of the settings, which is an accuracy; 0 if there is none."""
        return self.settings.target if self.question.metric == "accuracy" else 0.0

    @cached_property
    def short(self) -> dict[str, str]:
        """Short names of rows: their methods without parameters, where that tells them apart."""
        placebos = {one.entry.placebo: one.entry.name for one in self.standings}
        plain = {
            name: bare(name) if standing.entry.is_line else name
            for name, standing in self.by_name.items()
        }
        methods = [plain[name] for name in self.by_name if name not in placebos]
        short = {
            name: plain[name] if methods.count(plain[name]) == 1 else name for name in self.by_name
        }
        return {
            name: f"placebo of {short[placebos[name]]}" if name in placebos else text
            for name, text in short.items()
        }

    @property
    def run_folders(self) -> list[Path]:
        """The folders of all runs that were scored."""
        return [
            self.folder / standing.entry.runs[seed]
            for standing in self.standings
            for seed in standing.scores
        ]

    @cached_property
    def ranked(self) -> tuple[Standing, ...]:
        """The rows by their mean of the last five, the best first; those without one come last."""
        means = {one.entry.name: one.last_five for one in self.standings}
        return tuple(
            sorted(
                self.standings,
                key=lambda one: -found.mean if (found := means[one.entry.name]) else 1.0,
            )
        )

    @cached_property
    def baseline(self) -> str:
        """What sentences and tables call the row that all others are compared with."""
        name = self.question.baseline
        return "FedAvg" if name == FEDAVG else self.short.get(name, name)

    def to_baseline(self, standing: Standing) -> Difference | None:
        """Compare the mean of the last five with the baseline's, FedAvg unless it is said."""
        return self._judged.get((standing.entry.name, self.question.baseline))

    def to_placebo(self, standing: Standing) -> Difference | None:
        """Compare the mean of the last five with that of the row's own placebo."""
        return self._judged.get((standing.entry.name, standing.entry.placebo))

    def differences(self, standing: Standing) -> dict[str, Difference | None]:
        """Compare a row with the baseline and with its placebo."""
        return {"to_baseline": self.to_baseline(standing), "to_placebo": self.to_placebo(standing)}

    @cached_property
    def placebos(self) -> set[str]:
        """The names of the rows that are placebos of others."""
        return {one.entry.placebo for one in self.standings} - {""}

    @cached_property
    def _judged(self) -> dict[tuple[str, str], Difference]:
        """All differences by row and other row, judged together with those of their kind."""
        baseline = self.question.baseline
        rows = [one for one in self.standings if one.entry.name != baseline]
        families: dict[tuple[bool, bool], dict[tuple[str, str], Difference]] = {}
        for one in rows:
            is_placebo = one.entry.name in self.placebos
            for other in (baseline, one.entry.placebo):
                if difference := self._difference(one, other):
                    family = families.setdefault((is_placebo, other == baseline), {})
                    family[one.entry.name, other] = difference
        return {
            pair: judged
            for family in families.values()
            for pair, judged in zip(family, judge_together(list(family.values())), strict=True)
        }

    def _difference(self, standing: Standing, other: str) -> Difference | None:
        if other not in self.by_name:
            return None
        own, its = (
            {seed: score.last_five for seed, score in one.scores.items()}
            for one in (standing, self.by_name[other])
        )
        return paired_difference(own, its)


def bare(line: str) -> str:
    """Write a methods line without its parameters; a comma separates rows where this is read."""
    return " + ".join(Path(call.name).name for call in parse(line, "methods"))


def record(plan: Plan, jobs: Sequence[Job], failed: Mapping[Path, str]) -> None:
    """Write which runs make up a comparison, so that `compare FOLDER` shows it again."""
    rows = [asdict(entry) for entry in make_entries(jobs, plan.usual)]
    content = {
        "settings": plan.base.flat(),
        "seeds": list(plan.seeds),
        "question": asdict(plan.question),
        "rows": rows,
        "failed": {path.name: reason for path, reason in failed.items()},
    }
    write_whole(plan.folder / FILE, json.dumps(content, indent=1).encode() + b"\n")


def make_entries(jobs: Sequence[Job], usual: Choice) -> list[ComparedLine]:
    """Collect the runs of every row and choice."""
    # FedAvg as it was given comes before FedAvg as it was chosen.
    tuned = {job.row.methods: choice_of(job.config) for job in jobs}[FEDAVG]
    found: dict[str, ComparedLine] = {}
    for job in jobs:
        name, choice = job.row.methods, choice_of(job.config)
        if name == FEDAVG and choice != tuned:
            name = f"{FEDAVG} with {', '.join(usual.apart_from(tuned))}"
        if name not in found:
            found[name] = make_entry(name, job.row.placebo, job.config, {})
        found[name].runs[job.config.seed] = job.folder.name
    return list(found.values())


def make_entry(name: str, placebo: str, config: RunConfig, runs: dict[int, str]) -> ComparedLine:
    """Make a row of runs that share a configuration but for their seed."""
    is_line, schedule = name == config.methods, choice_of(config).schedule
    return ComparedLine(name, placebo, config.lr, allows_secagg(config), runs, is_line, schedule)


def allows_secagg(config: RunConfig) -> bool:
    """Whether these methods can run with secure aggregation, which other settings may exclude."""
    lenient = {"secagg": "on", "dp": "off", "validation": 0.0, "patience": 0, "diagnostics": False}
    try:
        configure(config.flat(), {**lenient, "clients": max(5, config.clients), "participation": 1})
    except ConfigurationError:
        return False
    return True


@nothing_imported()
def read_outcome(folder: Path, score: str | None = None) -> Outcome:
    """Read a comparison from its folder, by its own score or by another one."""
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        entries = [
            ComparedLine(**{**row, "runs": {int(seed): name for seed, name in row["runs"].items()}})
            for row in content["rows"]
        ]
        settings = configure(content["settings"])
        failed, seeds = dict(content["failed"]), tuple(content["seeds"])
        question = Question(**content.get("question", {}))  # records of before have none
        question = replace(question, score=score or question.score)
        check_score(question.score)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is damaged and cannot be read: {error}") from None
    except ConfigurationError as error:
        refused = "; ".join(error.problems)
        raise DataError(f"{path} has settings that this version refuses: {refused}") from None
    standings = tuple(stand(folder, entry, failed, question) for entry in entries)
    if score and not any(standing.scores for standing in standings):
        reason = next(why for standing in standings for why in standing.failed.values())
        raise DataError(
            f"score={score!r}: no run in {folder} can be compared by it. Of the first, {reason};"
            " choose another score, or run the comparison anew"
        )
    return Outcome(folder, settings, seeds, standings, question)


def stand(
    folder: Path, entry: ComparedLine, failed: Mapping[str, str], question: Question = QUESTION
) -> Standing:
    """Score the runs of a row; `failed` has reasons that their own records may lack."""
    scores, reasons = {}, {}
    for seed, name in entry.runs.items():
        try:
            reason = failed.get(name) or _explain(find_summary(folder / name))
            score = None if reason else read_score(folder / name, question.score)
            if score is None:
                reasons[seed] = reason or question.missing
            else:
                scores[seed] = score
        except DataError as error:
            reasons[seed] = str(error)
    return Standing(entry, scores, reasons)


def _explain(summary: Mapping[str, Any]) -> str:
    status = summary.get("status", "unfinished")
    return "" if status == "finished" else str(summary.get("reason", status))
