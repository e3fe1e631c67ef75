"""Repeats what too few clients have answered, with the clients that are then present."""

from collections.abc import Callable
from dataclasses import dataclass
from logging import WARNING
from typing import TypeVar

from flwr.common import log

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.server.messages.plain import RoundFailed
from fedmirage.server.messages.roster import Roster
from fedmirage.server.record.results import Results

T = TypeVar("T")


@dataclass
class Tries:
    """Tries a round as often as `retries` allows; results.jsonl has a line for each failure."""

    config: RunConfig
    roster: Roster
    results: Results

    def __call__(self, number: int, attempt_once: Callable[[dict[int, str]], T]) -> T:
        """Ask clients until enough of them have answered.

        What is called gets the clients that further tries leave out, each with its reason.
        """
        without: dict[int, str] = {}
        for attempt in range(1, self.config.retries + 2):
            self.roster.refresh(self.config.node_timeout)
            try:
                return attempt_once(without)
            except RoundFailed as error:
                without |= error.without
                if error.hopeless:  # a mistake in a method, which every further try would repeat
                    raise FedmirageError(str(error)) from None
                reason = str(error)
            line = {"kind": "retry", "round": number, "attempt": attempt, "reason": reason}
            self.results.append(line)
            log(WARNING, "%s", reason)
        raise FedmirageError(
            f"{reason.rstrip('.')}. The round was tried {attempt} times"
            f" (retries={self.config.retries})."
        )
