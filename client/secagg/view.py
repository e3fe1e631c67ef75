"""What a client knows in a try of a secure round: its clients, their keys, and what they agreed on.

Between messages it is kept in Flower's state of the node, beside what Flower's own mod keeps there.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from flwr.app import ConfigRecord, Context, Message
from flwr.client.mod.secure_aggregation.secaggplus_mod import SecAggPlusState
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE

from fedmirage.client.secagg.lots import Lots
from fedmirage.client.secagg.opened import Opened
from fedmirage.common.memory import client_folder
from fedmirage.common.secagg.agreement import AGREEMENT, NODES, SURVIVORS, TAGS
from fedmirage.common.secagg.circle import CIRCLE, Circle
from fedmirage.common.secagg.keys import make_tag
from fedmirage.common.secagg.neighbours import KeyPlan
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.settings.config import RunConfig


@dataclass
class View:
    """One message of a secure round, and what the client knows when it arrives."""

    message: Message
    context: Context
    config: RunConfig
    secagg: SecAggOn
    memory: Path

    @cached_property
    def request(self) -> ConfigRecord:
        """What the server asks for; Flower checks a message's records whenever one is taken."""
        return self.message.content.config_records[RECORD_KEY_CONFIGS]

    @property
    def node(self) -> int:
        """This client's id."""
        return self.message.metadata.dst_node_id

    @cached_property
    def circle(self) -> Circle:
        """The clients of the try, as the server named them at its beginning, in their seats."""
        return Circle.recall(self.context.state.config_records[CIRCLE])

    @cached_property
    def plan(self) -> KeyPlan:
        """How the try shares its keys."""
        return self.secagg.key_plan(len(self.circle.partitions))

    @cached_property
    def neighbours(self) -> set[int]:
        """The clients that hold shares of this one's keys, itself among them."""
        return self.circle.neighbours(self.node, self.plan.shares)

    @property
    def agreed(self) -> set[int]:
        """The clients for which this one has said that it would open the sum; none so far."""
        record = self.context.state.config_records.get(AGREEMENT, ConfigRecord())
        return set(cast(list[int], record.get(SURVIVORS, [])))

    @property
    def draws_lots(self) -> bool:
        """Whether it matters who sits where, because not all clients are neighbours."""
        return self.plan.shares < len(self.circle.partitions)

    @cached_property
    def flower_state(self) -> SecAggPlusState:
        """What Flower's mod keeps between the messages of a try; it takes long to read."""
        record = self.context.state.config_records.get(RECORD_KEY_STATE, ConfigRecord())
        return SecAggPlusState(**record)

    def read_tags(self, name: str) -> dict[int, bytes]:
        """Read what the server passes on from other clients, by node."""
        record = self.message.content.config_records.get(name, ConfigRecord())
        nodes, tags = (cast(list[Any], record.get(key, [])) for key in (NODES, TAGS))
        return dict(zip(nodes, tags, strict=True))

    def opened(self, circle: Circle) -> Opened:
        """What this client has opened in this run."""
        return Opened(self._folder(circle))

    def lots(self, circle: Circle) -> Lots:
        """What this client has drawn in this run."""
        return Lots(self._folder(circle))

    def _folder(self, circle: Circle) -> Path:
        own = circle.partitions[self.node]
        return client_folder(self.memory, circle.token, own) / "opened"

    def tag_shares(self, source: int, target: int, sealed: bytes) -> bytes:
        """Bind key shares to the round, its clients, and both masking keys."""
        keys = self.flower_state.public_keys_dict
        other = target if source == self.node else source
        parts = (self.circle.digest, keys[source][0], keys[target][0], sealed)
        return make_tag(self.flower_state.ss2_dict[other], "shares", source, target, *parts)

    def tag_survivors(self, source: int, target: int, left: bytes) -> bytes:
        """Bind a client's view of who is left, as `write_survivors` writes it, to the round."""
        other = target if source == self.node else source
        shared = self.flower_state.ss2_dict[other]
        return make_tag(shared, "survivors", source, target, self.circle.digest, left)


def write_survivors(survivors: set[int]) -> bytes:
    """Write in one way only who is left."""
    return " ".join(map(str, sorted(survivors))).encode()
