"""Adaptive waiting: short while messages come and go, as long as Flower's when nothing happens.

Flower's programs look for work at fixed intervals: an idle SuperNode for messages every 3 s, and
for the reply of its task every 0.5 s; a SuperExec for tasks every 1 s. The intervals are written
into the code, and no option changes them. Where these loops call `time.sleep`, they find a `Pace`
here, which shortens the wait and does nothing else.
"""

import functools
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fedmirage.common.flower import LEFT, SHORTEST, require

SHARE = 0.05  # of the time since something happened: what waiting may add to it


class Pace:
    """Stands where a module of Flower has imported `time`."""

    def __init__(self) -> None:
        self.last = float("-inf")  # when something happened

    def note(self) -> None:
        """Note that something has happened, so that more may follow soon."""
        self.last = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for a share of the time since then, never longer than Flower would."""
        time.sleep(min(seconds, max(SHORTEST, SHARE * (time.monotonic() - self.last))))

    def __getattr__(self, name: str) -> Any:
        """Leave everything else as it is."""
        return getattr(time, name)


def set_pace(module: ModuleType, *steps: str) -> Pace:
    """Let a module of Flower wait adaptively; return its pace.

    A step is a function of the module that is only called when there is something to do. A Flower
    that has no such names there is refused.
    """
    require(vars(module), ("time", *steps), f"the waiting in {module.__name__} {LEFT}")
    pace = Pace()
    for name in steps:
        setattr(module, name, noted(pace, getattr(module, name)))
    module.time = pace  # type: ignore[attr-defined]
    return pace


def noted(pace: Pace, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same step, whose beginning and end are noted."""

    @functools.wraps(step)
    def act(*arguments: Any, **options: Any) -> Any:
        pace.note()
        try:
            return step(*arguments, **options)
        finally:
            pace.note()

    return act
