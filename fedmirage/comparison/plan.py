"""What a comparison consists of: its methods lines with their placebos, and all of their runs."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedmirage.common.errors import collect, refuse
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.comparison.rows import (
    FEDAVG,
    GLOBAL,
    LOCAL,
    SITES,
    Choice,
    Question,
    Row,
    choice_of,
    headline,
    make_choices,
    make_rows,
    read_schedules,
)
from fedmirage.records.lines import recorded_settings
from fedmirage.server.record.folder import require_same_settings
from fedmirage.settings.layers import add_network, place

QUESTION = Question()
MOST_SEEDS = 1000  # more are a mistyped number
VALIDATION = 0.1  # the share of every client's data that chooses learning rates and schedules


@dataclass(frozen=True)
class Job:
    """One run of a comparison."""

    row: Row
    config: RunConfig
    parent: Path | None = None  # the run whose first rounds it takes over
    needs_parent: bool = False  # whether its own first rounds would be other ones

    @property
    def folder(self) -> Path:
        """Where its results are."""
        return Path(self.config.out)

    @property
    def rounds(self) -> int:
        """How many rounds it does itself."""
        _, _, taken = self.config.warm_start.rpartition("@")
        return self.config.rounds - (int(taken) if self.parent else 0)

    def __str__(self) -> str:
        return self.folder.name


@dataclass(frozen=True)
class Plan:
    """All rows and seeds of a comparison; `base` has what is the same in all of its runs."""

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    base: RunConfig
    choices: tuple[Choice, ...]  # rates and schedules to choose from; the first is that of `base`
    share: bool  # whether rounds that are FedAvg's are taken over from FedAvg
    question: Question = QUESTION

    @property
    def folder(self) -> Path:
        """Where all runs have their folders."""
        return Path(self.base.out)

    def trials(self) -> list[Job]:
        """Make the runs that choose: every row with every rate and schedule, on one seed."""
        return [job for choice in self.choices for job in self._jobs(self.seeds[:1], {}, choice)]

    def runs(self, chosen: Mapping[str, Choice]) -> list[Job]:
        """Make the runs that are compared, each row with its chosen rate and schedule.

        FedAvg also runs with those of the command, so that the choice shows its own effect.
        """
        rows = self._jobs(self.seeds, chosen, self.usual)
        if chosen.get(FEDAVG, self.usual) == self.usual:
            return rows
        return [self._job(Row(FEDAVG), seed, self.usual) for seed in self.seeds] + rows

    @property
    def usual(self) -> Choice:
        """The rate and the schedule of the command."""
        return self.choices[0]

    def _jobs(self, seeds: Sequence[int], chosen: Mapping[str, Choice], other: Choice) -> list[Job]:
        found = []
        for seed in seeds:
            jobs = [self._job(row, seed, chosen.get(row.methods, other)) for row in self.rows]
            found += share_warm_up(jobs) if self.share else jobs
        return found

    def _job(self, row: Row, seed: int, choice: Choice) -> Job:
        texts = choice.apart_from(self.usual)
        different = [f"-{make_slug(text.replace('=', ''))}" for text in texts]
        out = self.folder / f"{make_slug(row.methods)}{''.join(different)}-seed{seed}"
        own = {"methods": row.methods, "seed": seed, "out": str(out)}
        own |= choice.settings if different else {}
        return Job(row, configure(self.base.flat(), own))


def share_warm_up(jobs: list[Job]) -> list[Job]:
    """Let runs of one seed take over FedAvg's rounds where these are theirs, bit for bit.

    They differ in their methods alone; without FedAvg among them, nothing is shared.
    """
    fedavg = next((job for job in jobs if job.row.methods == FEDAVG), None)
    if fedavg is None:
        return jobs
    taken = {
        job: count
        for job in jobs
        if (count := shared_rounds(job.config))
        and choice_of(job.config) == choice_of(fedavg.config)
    }
    begun = recorded_settings(fedavg.folder)
    if not taken or begun.get("keep-models", "all") != "all":
        return jobs
    parent = _change(fedavg, {"keep-models": "all"})
    found = []
    for job in jobs:
        if job in taken and "warm-start" not in recorded_settings(job.folder):
            start = {"warm-start": f"{parent.folder}@{taken[job]}"}
            found.append(_change(job, start, parent.folder))
        else:
            found.append(parent if job is fedavg else job)
    return found


def make_plan(
    layers: Sequence[Mapping[str, Any]],
    methods: Sequence[str],
    seeds: str,
    controls: bool,
    tune: int,
    schedules: Sequence[str],
    share: bool,
    question: Question = QUESTION,
) -> Plan:
    """Plan a comparison; everything that is wrong with it is refused at once."""
    problems: list[str] = []
    numbers = read_seeds(seeds, problems)
    if tune < 0:
        problems.append(f"tune={tune}: write how many learning rates every method may try, or 0")
    tried = read_schedules(schedules, problems)
    rows = make_rows(methods, question.baseline, controls, problems)
    configs = []
    for row in rows:
        with collect(problems):
            configs.append(configure(*layers, {"methods": row.methods}))
    refuse(add_network(problems, layers))
    base = configs[0]
    if question.score == GLOBAL:
        question = replace(question, score=headline(base.server_data))
    check_server_data(base, question, tune, tried)
    usual: dict[str, Any] = {"methods": FEDAVG, "server-threads": base.server_threads or 1}
    choices = make_choices(choice_of(base), tune, tried)
    if len(choices) > 1:
        usual["validation"] = base.validation or VALIDATION
    if question.score == LOCAL:
        usual["local-evaluation"] = True
    asked = [methods, seeds, tune, tried, base.flat()]
    asked += [] if question == QUESTION else [asdict(question)]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    name = f"compare-{base.dataset_list[0].name}-{digest[:8]}"
    usual["out"] = base.out or str(Path("runs", name))
    common = place(configure(base.flat(), usual))
    plan = Plan(tuple(rows), numbers, common, choices, share, question)
    require_own_folders(plan)
    return plan


def check_server_data(
    base: RunConfig, question: Question, tune: int, schedules: Sequence[str]
) -> None:
    """Refuse what a comparison without data on the server cannot do, and the other way round."""
    problems = []
    if base.server_reads_data and question.score in SITES:
        problems.append(
            f"score={question.score!r} is of runs with server-data='none'; write that too, or"
            " score='global'"
        )
    if not base.server_reads_data and question.score not in (*SITES, LOCAL):
        known = " or ".join(f"score={name!r}" for name in (*SITES, LOCAL))
        problems.append(
            f"score={question.score!r} needs a test set on the server; with server-data='none'"
            f" write {known}"
        )
    if not base.server_reads_data and (tune > 1 or schedules):
        problems.append(
            "tune and schedules choose by validation, which server-data='none' excludes; leave"
            " them out, or write server-data='test'"
        )
    refuse(problems)


def shared_rounds(config: RunConfig) -> int:
    """Count the rounds at the beginning of a run that are those of FedAvg, in every bit.

    Noise and masks are new in every run, and patience counts from the beginning of a run.
    """
    if config.warm_start or config.patience:
        return 0
    if config.dp_params.active or config.secagg_params.active:
        return 0
    if not all(method.begins_as_fedavg for method in config.method_list):
        return 0
    return min(config.rounds, *(method.acts_from(config) for method in config.method_list)) - 1


def require_own_folders(plan: Plan) -> None:
    """Refuse a folder whose runs have other settings: their numbers would not belong together."""
    problems: list[str] = []
    for job in [*plan.trials(), *plan.runs({})]:
        if recorded_settings(job.folder):
            with collect(problems):
                require_same_settings(resume(job.config), job.folder)
    refuse(problems)


def resume(config: RunConfig) -> RunConfig:
    """Make the configuration that continues a run where it is, and keeps what it kept."""
    kept = recorded_settings(Path(config.out))["keep-models"]
    changes = {"resume": config.out, "warm-start": "", "keep-models": kept}
    return configure(config.flat(), changes)


def read_seeds(text: str, problems: list[str]) -> tuple[int, ...]:
    """Read seeds such as "0,1,2" or "0..9", which ends with 9."""
    seeds: list[int] = []
    for piece in text.split(","):
        first, dots, last = (part.strip() for part in piece.partition(".."))
        ends = first, last if dots else first
        count = int(ends[1]) - int(ends[0]) + 1 if all(map(str.isdecimal, ends)) else 0
        if not 1 <= count <= MOST_SEEDS:
            break
        seeds += range(int(ends[0]), int(ends[1]) + 1)
    else:
        if len(set(seeds)) == len(seeds):
            return tuple(seeds)
    problems.append(
        f"seeds={text!r}: write different whole numbers separated by commas, such as 0,1,2, or from"
        f" the first to the last, such as 0..9, at most {MOST_SEEDS}"
    )
    return ()


def _change(job: Job, settings: Mapping[str, Any], parent: Path | None = None) -> Job:
    return Job(job.row, configure(job.config.flat(), settings), parent)


def make_slug(line: str) -> str:
    """Make a name for a folder; a long one ends with a digest, so that all are different."""
    plain = re.sub(r"[^a-z0-9.]+", "-", line.lower()).strip("-")
    digest = hashlib.sha256(line.encode()).hexdigest()[:6]
    return plain if len(plain) <= 40 else f"{plain[:40].rstrip('-')}-{digest}"
