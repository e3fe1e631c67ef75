"""The clients of one try of a secure round, in the circle in which they are neighbours.

The order of the circle follows from the run's seed, the round and the partitions that take part:
the server cannot seat a client among accomplices, and the same clients sit in the same order again.
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

from common.errors import WireError

CIRCLE = "circle"  # the record in which the server names the clients of a try
TOKEN = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True)
class Circle:
    """Who takes part in a try of which round of which run; nodes are in the order of the circle."""

    token: str
    round: int
    partitions: dict[int, int]  # node -> partition

    @classmethod
    def seat(cls, token: str, number: int, partitions: Mapping[int, int], seed: int) -> Circle:
        """Put the nodes in the order that follows from the seed, the round and the partitions."""

        def place(node: int) -> bytes:
            text = f"{seed}/secagg neighbours/{number}/{partitions[node]}"
            return hashlib.sha256(text.encode()).digest()

        return cls(
            token, number, {node: partitions[node] for node in sorted(partitions, key=place)}
        )

    @classmethod
    def read(cls, record: ConfigRecord, seed: int) -> Circle:
        """Read what `write` wrote, on the other side; the order is made afresh."""
        token, number = record["token"], record["round"]
        nodes, partitions = (cast(list[int], record[key]) for key in ("nodes", "partitions"))
        if not isinstance(token, str) or not TOKEN.fullmatch(token) or type(number) is not int:
            raise WireError(f"the server's round {number!r} of run {token!r} is none")
        if not are_distinct(nodes) or not are_distinct(partitions) or len(nodes) != len(partitions):
            raise WireError("the server's list of a round's clients is malformed")
        return cls.seat(token, number, dict(zip(nodes, partitions, strict=True)), seed)

    def write(self) -> ConfigRecord:
        """Write it into a record of a message."""
        return ConfigRecord(
            {
                "token": self.token,
                "round": self.round,
                "nodes": list(self.partitions),
                "partitions": list(self.partitions.values()),
            }
        )

    @cached_property
    def digest(self) -> bytes:
        """Identify the try's clients, their order and the round."""
        text = json.dumps([self.token, self.round, list(self.partitions.items())])
        return hashlib.sha256(text.encode()).digest()

    def neighbours(self, node: int, shares: int) -> set[int]:
        """Find the nodes that hold a share of a node's keys: itself, and as many on either side."""
        nodes = list(self.partitions)
        if shares >= len(nodes):
            return set(nodes)
        place, side = nodes.index(node), shares // 2
        return {nodes[(place + offset) % len(nodes)] for offset in range(-side, side + 1)}

    def are_connected(self, nodes: set[int], shares: int) -> bool:
        """Check that masks link these nodes to each other.

        If they fell into separate groups, the sum of each group could be opened on its own.
        """
        reached, edge = set[int](), set(list(nodes)[:1])
        while edge:
            reached |= edge
            edge = {other for node in edge for other in self.neighbours(node, shares) & nodes}
            edge -= reached
        return reached == nodes

    def partitions_of(self, nodes: set[int]) -> list[int]:
        """Name some of the nodes by their partitions, in order."""
        return sorted(self.partitions[node] for node in nodes)


def are_distinct(numbers: Any) -> bool:
    """Check that a message holds a list of whole numbers, each of them once."""
    return (
        isinstance(numbers, list)
        and all(type(number) is int for number in numbers)
        and len(set(numbers)) == len(numbers)
    )
