"""What the two sides of a secure round say to each other: the names in messages, and a try.

The exchanges are those of Bonawitz et al. (CCS 2017, figure 4): public keys; shares of secret keys,
sealed from client to client; masked vectors, for which the clients train; who is left; shares that
open the masks of the sum. Clients are named by their partitions, in ascending order, and whatever
belongs to them stands in this order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from flwr.common import FitIns

from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.secagg.keys import KEY, OVERHEAD, join, split
from fedmirage.common.secagg.shamir import SHARE as SHARE_SIZE
from fedmirage.common.wire.payload import LAYOUT, ONLY_SCORES, SHARED, slices
from fedmirage.common.wire.statistics import NORMALISATION

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig

VERSION = "fedmirage-secagg-4"
RECORD = "fedmirage.secagg"  # the record of requests, of answers, and of what a client keeps
REFUSAL = "refusal"  # the record in which a client says why it does not take part
# The exchanges; the paper calls them rounds 0 to 4.
ADVERTISE, SHARE, MASK, AGREE, OPEN = "advertise", "share", "mask", "agree", "open"
MASKING, SEALING, OWN = range(3)  # a client's key pairs: of masks in common, of seals, its own mask
PAIRS = 3
SEALED = 2 * SHARE_SIZE + OVERHEAD  # bytes of what one client seals for another


class RefusalError(FedmirageError):
    """A refusal that tells the server whom to leave out (names), or whom to ask (clients)."""

    def __init__(self, reason: str, **told: list[int]) -> None:
        super().__init__(reason)
        self.told = told


@dataclass(frozen=True)
class SecureTask:
    """What is trained: a round of a run, and the model from which it starts.

    Round 0 trains nothing: clients add up the columns of their tables, and the model is the schema.
    """

    token: str
    round: int
    model: bytes  # its SHA-256

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> SecureTask:
        """Read what the other side, or this one in an earlier message, wrote."""
        task = cls(*(cast(Any, record.get(key)) for key in ("token", "round", "model")))
        named = isinstance(task.token, str) and isinstance(task.model, bytes)
        if not named or type(task.round) is not int or task.round < 0:
            raise WireError(f"the server's round {task.round!r} of run {task.token!r} is none")
        return task

    @classmethod
    def of(cls, ins: FitIns) -> SecureTask:
        """Find out what a request to train is about."""
        tensors, layout = ins.parameters.tensors, str(ins.config.get(LAYOUT))
        shared = tensors[slices(layout, len(tensors))[SHARED]]
        # One normalisation for all: with another for each, a sum could show a single client's.
        scale = ins.config.get(NORMALISATION, b"")
        known = [scale] if isinstance(scale, bytes) and scale else []
        told = dict(ins.config)
        if ONLY_SCORES in told:  # what is answered without training must not bind what trains
            told["token"] = name_scores(str(told.get("token")))
            known.append(ONLY_SCORES.encode())
        model = hashlib.sha256(join(*shared, *known)).digest()
        return cls.read({**told, "model": model})

    def count_drawn(self, config: RunConfig) -> int:
        """Return how many clients are drawn for it: all, where they add up their tables."""
        return config.drawn if self.round else config.clients

    def write(self) -> dict[str, Any]:
        """Write it into a record."""
        return {"token": self.token, "round": self.round, "model": self.model}


@dataclass(frozen=True)
class Try:
    """One try of a round: its clients, which do not change any more, and their public keys."""

    task: SecureTask
    keys: dict[int, bytes]  # by partition
    rules: str = ""  # the settings by which a client takes part; only clients need them

    @classmethod
    def read(cls, task: SecureTask, record: Mapping[str, Any], rules: str) -> Try:
        """Read the clients and their keys."""
        partitions, keys = (cast(Any, record.get(key)) for key in ("partitions", "keys"))
        parts = split(keys, PAIRS * KEY) if isinstance(keys, bytes) else []
        if not are_ascending(partitions) or len(parts) != len(partitions):
            raise WireError("the server's list of a round's clients is malformed")
        return cls(task, dict(zip(partitions, parts, strict=True)), rules)

    def write(self) -> dict[str, Any]:
        """Write the clients and their keys into a record."""
        return {"partitions": self.clients, "keys": b"".join(self.keys.values())}

    @cached_property
    def clients(self) -> list[int]:
        """The clients, by partition."""
        return sorted(self.keys)

    def others(self, own: int) -> list[int]:
        """All clients but one."""
        return [partition for partition in self.clients if partition != own]

    def key(self, partition: int, pair: int) -> bytes:
        """One of a client's public keys."""
        return self.keys[partition][pair * KEY : (pair + 1) * KEY]

    @cached_property
    def points(self) -> dict[int, int]:
        """At which point each client holds the shares of all keys."""
        return {partition: place for place, partition in enumerate(self.clients, start=1)}

    @cached_property
    def digest(self) -> bytes:
        """Identify the round, the model, the clients, their keys and the rules."""
        task, named = self.task, [part for one in self.clients for part in self._name(one)]
        told = (VERSION.encode(), self.rules.encode(), task.token.encode())
        head = (*told, write_number(task.round), task.model)
        return hashlib.sha256(join(*head, *named)).digest()

    def _name(self, partition: int) -> tuple[bytes, bytes]:
        return write_number(partition), self.keys[partition]


def name_scores(token: str) -> str:
    """Name the task of a run in which nothing is trained, as if it were a run of its own."""
    return hashlib.sha256(f"{ONLY_SCORES} {token}".encode()).hexdigest()[:16]


def are_of_one_run(token: str, other: str) -> bool:
    """Whether two tasks belong to one run; one of them may be its task of scores."""
    return token in (other, name_scores(other)) or name_scores(token) == other


def write_number(number: int) -> bytes:
    """Write a number where a tag or a seal depends on it."""
    return str(number).encode()


def write_clients(partitions: Sequence[int]) -> bytes:
    """Write a list of clients where a tag depends on it."""
    return " ".join(map(str, partitions)).encode()


def are_ascending(partitions: Any) -> bool:
    """Check that a message holds partitions in ascending order, each of them once."""
    return (
        isinstance(partitions, list)
        and all(type(partition) is int and partition >= 0 for partition in partitions)
        and partitions == sorted(set(partitions))
    )
