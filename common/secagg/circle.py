"""The clients of one try of a secure round, in the circle in which they are neighbours.

If all clients are neighbours, the order does not matter, and is that of the partitions. Otherwise
it is drawn by lot: it follows from random numbers of all clients, each bound to its own before it
has seen the others'. One honest client is enough to make it random, so that the server cannot seat
a client among accomplices, neither by its choice of who takes part nor by trying many seeds.
A client knows the others by partition, because the ids of Flower's nodes may change when nodes are
started again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from flwr.app import ConfigRecord

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.keys import join

CIRCLE = "circle"  # the record in which the server names the clients of a try
SEAL = 32  # bytes of a sealed lot
TOKEN = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class Circle:
    """Who takes part in a try of which round of which run; nodes are in the order of the circle."""

    token: str
    round: int
    partitions: dict[int, int]  # node -> partition

    @classmethod
    def gather(cls, token: str, number: int, partitions: Mapping[int, int]) -> Circle:
        """Name the clients of a try, in the order of their partitions."""
        order = sorted(partitions, key=lambda node: partitions[node])
        return cls(token, number, {node: partitions[node] for node in order})

    @classmethod
    def read(cls, record: ConfigRecord) -> Circle:
        """Read what the server wrote; only the order of the partitions counts."""
        token, number = record["token"], record["round"]
        nodes, partitions = (cast(list[int], record[key]) for key in ("nodes", "partitions"))
        if not isinstance(token, str) or not TOKEN.fullmatch(token) or type(number) is not int:
            raise WireError(f"the server's round {number!r} of run {token!r} is none")
        if not are_distinct(nodes) or not are_distinct(partitions) or len(nodes) != len(partitions):
            raise WireError("the server's list of a round's clients is malformed")
        return cls.gather(token, number, dict(zip(nodes, partitions, strict=True)))

    @classmethod
    def recall(cls, record: ConfigRecord) -> Circle:
        """Read what this side wrote itself, with its order."""
        nodes, partitions = (cast(list[int], record[key]) for key in ("nodes", "partitions"))
        order = dict(zip(nodes, partitions, strict=True))
        return cls(str(record["token"]), cast(int, record["round"]), order)

    def write(self) -> ConfigRecord:
        """Write it into a record of a message, or of a client's state."""
        return ConfigRecord(
            {
                "token": self.token,
                "round": self.round,
                "nodes": list(self.partitions),
                "partitions": list(self.partitions.values()),
            }
        )

    def seat(self, lots: Mapping[int, bytes]) -> Circle:
        """Put the nodes in the order that follows from everybody's lots, by node."""
        known = sorted((self.partitions[node], lots[node]) for node in self.partitions)
        parts = [part for partition, lot in known for part in (str(partition).encode(), lot)]
        drawn = hashlib.sha256(join(self.token.encode(), str(self.round).encode(), *parts)).digest()

        def place(node: int) -> bytes:
            return hashlib.sha256(join(drawn, str(self.partitions[node]).encode())).digest()

        order = sorted(self.partitions, key=place)
        return Circle(self.token, self.round, {node: self.partitions[node] for node in order})

    @cached_property
    def digest(self) -> bytes:
        """Identify the try's clients, their order and the round."""
        text = json.dumps([self.token, self.round, list(self.partitions.items())])
        return hashlib.sha256(text.encode()).digest()

    @cached_property
    def seats(self) -> dict[int, int]:
        """Where in the circle a node sits."""
        return {node: seat for seat, node in enumerate(self.partitions)}

    @cached_property
    def nodes(self) -> list[int]:
        """The nodes in the order of the circle."""
        return list(self.partitions)

    def neighbours(self, node: int, shares: int) -> set[int]:
        """Find the nodes that hold a share of a node's keys: itself, and as many on either side."""
        if shares >= len(self.nodes):
            return set(self.nodes)
        place, side = self.seats[node], shares // 2
        return {self.nodes[(place + offset) % len(self.nodes)] for offset in range(-side, side + 1)}

    def are_connected(self, nodes: set[int], shares: int) -> bool:
        """Check that masks link these nodes to each other.

        If they fell into separate groups, the sum of each group could be opened on its own. Two
        gaps that no mask bridges cut a circle apart.
        """
        if shares >= len(self.nodes):
            return True
        places = sorted(self.seats[node] for node in nodes)
        following = [*places[1:], places[0] + len(self.nodes)]
        gaps = [later - place for place, later in zip(places, following, strict=True)]
        return sum(gap > shares // 2 for gap in gaps) < 2

    def partitions_of(self, nodes: set[int]) -> list[int]:
        """Name some of the nodes by their partitions, in order."""
        return sorted(self.partitions[node] for node in nodes)


def seal_lot(lot: bytes) -> bytes:
    """Compute what binds a client to its lot without showing it."""
    return hashlib.sha256(join(b"fedmirage lot", lot)).digest()


def are_distinct(numbers: Any) -> bool:
    """Check that a message holds a list of whole numbers, each of them once."""
    return (
        isinstance(numbers, list)
        and all(type(number) is int for number in numbers)
        and len(set(numbers)) == len(numbers)
    )
