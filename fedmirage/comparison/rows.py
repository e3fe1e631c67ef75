"""What a comparison asks, and its rows: FedAvg, methods lines, and after each its placebo.

For each row it may choose a learning rate and a schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedmirage.common.errors import collect, refuse
from fedmirage.common.learning.schedules import SCHEDULES
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import Call, parse, resolve_one, write
from fedmirage.common.wire.metrics import FURTHER_SCORES
from fedmirage.server.record.shown import SITE_MEANS
from fedmirage.settings.layers import locate

FEDAVG = "fedavg"
GLOBAL, LOCAL = "global", "local"  # whose accuracy may be compared
# The means over the sites' held-out data, and where results.jsonl has each.
SITES = {"sites": "by_examples", "each-site": "by_sites"}
METRICS = {"accuracy": "accuracy", **FURTHER_SCORES}  # what each is called
# What may be compared: an accuracy, or another score of the global model.
SCORES = {GLOBAL: "accuracy", LOCAL: "accuracy"}
SCORES |= {name.replace("_", "-"): name for name in FURTHER_SCORES}
SCORES |= dict.fromkeys(SITES, "accuracy")
VIRTUAL = ("fedcog", "vhl", "dynafed", "fedlgd", "fedmd-cg")  # compared if nothing else is named
STEP = 3.0  # learning rates that are tried lie this factor apart


@dataclass(frozen=True)
class Question:
    """What a comparison is called, what its rows are compared with, and by which score."""

    title: str = ""
    baseline: str = FEDAVG
    score: str = GLOBAL

    @property
    def metric(self) -> str:
        """The score as results.jsonl names it."""
        return SCORES[self.score]

    @property
    def what(self) -> str:
        """What is compared, in the words of a sentence."""
        if self.score in SITES:
            return f"{METRICS[self.metric]} at the sites ({SITE_MEANS[SITES[self.score]]})"
        return METRICS[self.metric] + " of local models" * (self.score == LOCAL)

    @property
    def where(self) -> str:
        """On which data, in the words of a sentence."""
        return "held-out data" if self.score in SITES else "the test set"

    @property
    def missing(self) -> str:
        """Say of a run why it may lack the score."""
        if self.score == LOCAL:
            return "it has no accuracy of local models, which --local-evaluation records"
        if self.score in SITES:
            return "its sites have scored no model, which they do with server-data='none'"
        if self.metric == "accuracy":
            return (
                "it has no accuracy on the test set; a run with server-data='none' is compared by"
                " score=sites"
            )
        several = "its samples have several labels each"
        data = "its test set has one class only" if self.metric == "auc" else several
        return f"it has no {self.what}, because an earlier version made it, or because {data}"


@dataclass(frozen=True)
class Row:
    """A methods line in a comparison, and the line of its placebo if that is run too."""

    methods: str
    placebo: str = ""


def make_rows(
    methods: Sequence[str], baseline: str, controls: bool, problems: list[str]
) -> list[Row]:
    """Make the rows: FedAvg, the baseline, the given lines, and after each of them its placebo."""
    lines = []
    for text in methods or [FEDAVG, *VIRTUAL]:
        with collect(problems):
            lines.append(spell(parse(locate(text), "methods")))
    problems += [
        f"methods: {line!r} is given more than once; keep one"
        for line in dict.fromkeys(lines)
        if lines.count(line) > 1
    ]
    rows: dict[str, Row] = {FEDAVG: Row(FEDAVG), baseline: Row(baseline)}
    for line in lines:
        placebo = ""
        with collect(problems):
            placebo = placebo_of(line) if controls else ""
        rows[line] = Row(line, placebo)
        if placebo and placebo not in lines:
            rows[placebo] = Row(placebo)
    return list(rows.values())


def make_question(title: str, baseline: str, score: str, problems: list[str]) -> Question:
    """Make the question of a comparison; what is wrong with it is added to the problems."""
    with collect(problems):
        check_score(score)
    line = FEDAVG
    with collect(problems):
        line = spell(parse(baseline, "baseline"))
    return Question(title, line, score)


def headline(server_data: str) -> str:
    """Return the score that is compared unless another is asked for."""
    return GLOBAL if server_data == "test" else next(iter(SITES))


def check_score(score: str) -> None:
    """Refuse a score that there is not."""
    *some, last = SCORES
    known = f"{', '.join(some)} or {last}"
    refuse([] if score in SCORES else [f"score={score!r} is not known; write {known}"])


def placebo_of(line: str) -> str:
    """Write the line in which every method that has a placebo is replaced by it.

    It is empty if none has, or if the line is such a placebo already.
    """
    calls = parse(line, "methods")
    changed = [
        Call(call.name, {**call.arguments, **METHODS[call.name].placebo})
        if call.name in METHODS
        else call
        for call in calls
    ]
    return "" if changed == calls else spell(changed)


def spell(calls: Sequence[Call]) -> str:
    """Write calls as a line."""
    texts = []
    for call in calls:
        arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        texts.append(f"{call.name}({arguments})" if arguments else call.name)
    return ", ".join(texts)


@dataclass(frozen=True)
class Choice:
    """A learning rate, and a schedule in its shortest form."""

    lr: float
    schedule: str

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a run with this choice."""
        return {"lr": self.lr, "schedule": self.schedule, "lr-decay": 1.0}

    def apart_from(self, other: "Choice") -> list[str]:
        """Write what distinguishes it from another choice."""
        rate = [f"lr={self.lr:g}"] if self.lr != other.lr else []
        return rate + ([self.schedule] if self.schedule != other.schedule else [])


def choice_of(config: RunConfig) -> Choice:
    """Return what a configuration has chosen."""
    return Choice(config.lr, write(config.schedule_params))


def make_choices(usual: Choice, count: int, schedules: Sequence[str]) -> tuple[Choice, ...]:
    """Combine learning rates with the usual schedule and the given ones; the usual choice first."""
    every = dict.fromkeys([usual.schedule, *schedules])
    return tuple(
        Choice(rate, schedule) for rate in learning_rates(usual.lr, count) for schedule in every
    )


def learning_rates(usual: float, count: int) -> tuple[float, ...]:
    """List learning rates around the usual one, nearest first: 1, 1/3, 3, 1/9, 9 times as large."""
    exponents = [0, *(sign * size for size in range(1, count) for sign in (-1, 1))]
    return tuple(float(f"{usual * STEP**exponent:.3g}") for exponent in exponents[: max(1, count)])


def read_schedules(texts: Sequence[str], problems: list[str]) -> list[str]:
    """Read the schedules that every row may try, each in its shortest form."""
    found = []
    for text in texts:
        with collect(problems):
            found.append(write(resolve_one(text, SCHEDULES, "tune-schedules")))
    problems += [
        f"tune-schedules: {schedule!r} is given more than once; keep one"
        for schedule in dict.fromkeys(found)
        if found.count(schedule) > 1
    ]
    return found
