"""What a comparison may choose for each of its rows: a learning rate and a schedule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedmirage.common.errors import collect
from fedmirage.common.learning.schedules import SCHEDULES
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import resolve_one, write

STEP = 3.0  # learning rates that are tried lie this factor apart


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
