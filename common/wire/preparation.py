"""What server and clients say to each other before a client's first round.

A method may have long work to do before it can train. The server lets a client work on it in short
turns, one message each, until the client says that all of it is done. Nothing about the data is
said: under secure aggregation and differential privacy, notes stay in the client's own log.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from flwr.common import Scalar

from fedmirage.common.errors import WireError

PREPARE = "prepare"  # in a request for properties: work for so many seconds
DONE, SECONDS, NOTES = "prepared", "seconds", "notes"  # in the answer


@dataclass(frozen=True)
class Preparation:
    """How far a client has come."""

    done: float = 1.0  # the share of all work, from 0 to 1
    notes: tuple[str, ...] = ()  # sentences for those who read the numbers
    seconds: float = 0.0  # how long this turn worked; 0 if nothing was left to do

    @property
    def finished(self) -> bool:
        """Whether the client can take part in rounds."""
        return self.done >= 1

    def write(self) -> dict[str, Scalar]:
        """Put it into the properties of an answer."""
        return {DONE: self.done, SECONDS: self.seconds, NOTES: "\n".join(self.notes)}


def read_preparation(properties: Mapping[str, Scalar]) -> Preparation:
    """Read an answer; refuse one that is not an answer to this request."""
    done, seconds = properties.get(DONE), properties.get(SECONDS)
    if not (_is_number(done) and 0 <= done <= 1 and _is_number(seconds) and seconds >= 0):
        raise WireError("it does not say how far its preparation is; does it run the same version?")
    notes = str(properties.get(NOTES, ""))
    return Preparation(float(done), tuple(notes.splitlines()), float(seconds))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) and math.isfinite(value)
