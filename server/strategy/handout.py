"""Handing out a set of arrays once per version. The clients' half is client/handout.py.

Every message names the set by its digest, and the arrays go only to clients that are not known to
hold it. A client that answers a message that named a version holds it. One that was silent, failed
or came back as another node gets the arrays again. A set that changes during the run is another
version, which no client holds yet. A method's server half owns one `HandOut` per set and includes
its state in its own, so that a checkpoint saves it.
"""

from dataclasses import dataclass, field
from typing import Any

from fedmirage.common.wire.handout import digest
from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.server.strategy.average import Results, answered
from fedmirage.server.strategy.wrapper import Instructions, attach


@dataclass
class HandOutState:
    """What outlives a round."""

    version: str = ""  # the digest of the set that is handed out, in hexadecimal
    # Partitions whose last message named this version and was answered.
    holders: list[int] = field(default_factory=list)


class HandOut:
    """One set, or its changing versions, in one section of the messages down."""

    def __init__(self, section: str, state: HandOutState) -> None:
        self.section, self.state = section, state
        self.nodes: dict[int, Any] = {}  # partition -> the node that served it last
        self.asked: set[int] = set()  # partitions whose last message named the set
        # Partitions that were asked and have not answered since: they get arrays, not a recipe.
        self.failed: set[int] = set()

    def attach(
        self, instructions: Instructions, arrays: Arrays, recipe: Array | None = None
    ) -> Instructions:
        """Name the set in every message, and send it, or its recipe, to clients that may lack it.

        A client counts as a holder only once it has answered. This may run twice in a round that is
        retried.
        """
        version = digest(arrays)
        if self.state.version != version.tobytes().hex():
            self.state.version, self.state.holders = version.tobytes().hex(), []
        attached: Instructions = []
        for proxy, ins in instructions:
            partition, node = int(proxy.cid), getattr(proxy, "node_id", None)
            more = [] if self.holds(partition, node) else self.package(partition, arrays, recipe)
            attached += attach([(proxy, ins)], self.section, [version, *more])
            self.nodes[partition] = node
        self.asked = {int(proxy.cid) for proxy, _ in instructions}
        self.state.holders = [one for one in self.state.holders if one not in self.asked]
        self.failed |= self.asked
        return attached

    def holds(self, partition: int, node: Any) -> bool:
        """Whether this client is known to hold the version; another node in its place does not."""
        same_node = self.nodes.get(partition, node) == node
        return same_node and partition in self.state.holders

    def package(self, partition: int, arrays: Arrays, recipe: Array | None) -> Arrays:
        """What a client that lacks the set gets: its recipe, or the arrays if that has failed."""
        return arrays if recipe is None or partition in self.failed else [recipe]

    def learn(self, results: Results) -> None:
        """Count clients as holders if they have answered a message that named the set.

        The one reply of a secure sum stands for all clients that answered.
        """
        holding = answered(results) & self.asked
        self.asked, self.failed = set(), self.failed - holding
        self.state.holders = sorted({*self.state.holders, *holding})
