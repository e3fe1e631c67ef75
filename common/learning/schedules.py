"""Schedules: how the clients' learning rate changes from round to round.

A schedule is a function of the number of the round and of the settings, and of nothing else. So
every client computes its rate by itself, the same one in every runtime, and a resumed run needs no
memory of it. Rounds keep their numbers in a warm start: a run that starts from round 50 goes on
with the rate of round 51, and repeats no warm-up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from fedmirage.common.settings.language import Params

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig

Round = Annotated[int, Field(ge=1)]
Factor = Annotated[float, Field(gt=0, le=1)]


def as_tuple(given: Any) -> Any:
    """One round may be written without brackets."""
    return given if isinstance(given, tuple) else (given,)


Rounds = Annotated[tuple[Round, ...], BeforeValidator(as_tuple)]


class Schedule(Params):
    """The base of all values of `schedule`, and what all of them have: the warm-up."""

    spans_run: ClassVar[bool] = False  # whether the rates depend on the run's last round

    warmup: Annotated[int, Field(ge=0)] = 0
    """n: the first n rounds have 1/(n+1), 2/(n+1), ..., n/(n+1) of the rate, and round n+1 is the
    first with all of it. What falls from round to round begins to fall after that round. 0 starts
    with the whole rate."""

    def multiplier(self, number: int, rounds: int) -> float:
        """By what `lr` is multiplied in a round of a run that ends with round `rounds`."""
        if number <= self.warmup:
            return number / (self.warmup + 1)
        return self.fall(number, rounds)

    def fall(self, number: int, rounds: int) -> float:
        """The multiplier in a round after the warm-up."""
        raise NotImplementedError

    def cautions(self, config: RunConfig) -> list[str]:
        """What is odd about this schedule in this run, as sentences."""
        if self.warmup < config.rounds:
            return []
        return [
            f"schedule: warmup={self.warmup} takes all of the run's {config.rounds} rounds, so"
            f" none has the rate lr={config.lr:g}; shorten it or raise rounds"
        ]


class Constant(Schedule):
    """All rounds have the rate `lr`."""

    name: ClassVar[str] = "constant"

    def fall(self, number: int, rounds: int) -> float:
        """Nothing falls."""
        return 1.0


class Exponential(Schedule):
    """Every round has a fixed fraction of the rate of the round before it."""

    name: ClassVar[str] = "exponential"

    factor: Factor
    """The rate of a round divided by that of the round before it; round 1 has `lr`. The setting
    lr-decay is the short form of it."""

    def fall(self, number: int, rounds: int) -> float:
        """The power of the factor that has as many rounds behind it."""
        return float(self.factor ** (number - 1 - self.warmup))


class StepSchedule(Schedule):
    """The rate drops in given rounds and is constant between them."""

    name: ClassVar[str] = "step"

    at: Rounds
    """The first round with the lower rate, at=51, or several such rounds, at=(51, 81). They are
    rounds of the run, whether there is a warm-up or not."""
    factor: Factor = 0.1
    """By what the rate is multiplied in each of these rounds; 1 gives `constant`."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.at or list(self.at) != sorted(set(self.at)):
            raise ValueError(
                f"at={self.at} must name a round, or different ones in rising order, as (51, 81)"
            )
        if self.at[0] <= self.warmup + 1:
            raise ValueError(
                f"the rate would drop in round {self.at[0]}, but with warmup={self.warmup} round"
                f" {self.warmup + 1} is the first with all of it; write a later round, or lower lr"
            )
        return self

    def fall(self, number: int, rounds: int) -> float:
        """One factor for every drop so far."""
        return float(self.factor ** sum(number >= drop for drop in self.at))

    def cautions(self, config: RunConfig) -> list[str]:
        """A drop after the last round never happens."""
        late = [drop for drop in self.at if drop > config.rounds]
        return super().cautions(config) + [
            f"schedule: the drop in round {drop} never comes, because rounds={config.rounds}"
            for drop in late
        ]


class Cosine(Schedule):
    """The rate follows half a cosine over all rounds of the run (SGDR without restarts).

    In round t of T it is last + (1 - last) (1 + cos(pi (t - 1) / T)) / 2 of `lr`, counted after the
    warm-up, as torch's CosineAnnealingLR has it. So round 1 has all of `lr`, and a round after the
    last one would have `last`; no round trains with a rate of 0. T is the run's `rounds`. A warm
    start follows the cosine of its own `rounds`. A resumed run must keep `rounds`, because its
    earlier rounds followed a cosine of that length.
    """

    name: ClassVar[str] = "cosine"
    spans_run: ClassVar[bool] = True

    last: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The fraction of `lr` that the rate falls to; 1 gives `constant`."""

    def fall(self, number: int, rounds: int) -> float:
        """The cosine over the rounds after the warm-up."""
        done = (number - 1 - self.warmup) / max(1, rounds - self.warmup)
        return self.last + (1 - self.last) * (1 + math.cos(math.pi * min(1.0, done))) / 2


SCHEDULES: dict[str, type[Schedule]] = {
    kind.name: kind for kind in (Constant, Exponential, StepSchedule, Cosine)
}
