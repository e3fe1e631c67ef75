"""Draws the clients of a round, which strategies see as Flower's clients.

Flower's node ids are random in every run, so its own client manager cannot repeat a draw. Here a
client *is* its partition.
"""

from collections.abc import Mapping, Sequence

from flwr.app import Message, RecordDict
from flwr.common import Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.criterion import Criterion
from flwr.serverapp import Grid

from fedmirage.common.site_names import SITE


class PartitionProxy(GridClientProxy):
    """A client as strategies see it: its `cid` is the number of its partition."""

    def __init__(
        self, partition: int, node_id: int, grid: Grid, properties: dict[str, Scalar]
    ) -> None:
        super().__init__(node_id, grid, 0)
        self.cid, self.partition = str(partition), partition
        self.properties = properties
        self.name = str(properties.get(SITE, ""))  # of its site; empty if it has none

    def message(self, content: RecordDict, kind: str, number: int) -> Message:
        """Make a message of a round to the node of this client."""
        return Message(content, self.node_id, kind, group_id=str(number))


class Candidates(ClientManager):
    """The clients from which one try of a round is drawn, as strategies see them."""

    def __init__(
        self, ready: Mapping[int, PartitionProxy], order: Sequence[int], substitutes: bool
    ) -> None:
        self.ready = ready  # by partition
        self.order = order  # of all partitions, connected or not
        self.substitutes = substitutes  # whether the next in the order stands in for a missing one

    def sample(
        self,
        num_clients: int,
        min_num_clients: int | None = None,
        criterion: Criterion | None = None,
    ) -> list[ClientProxy]:
        """Draw clients, the first ready ones in the order; they are returned in partition order."""
        order = self.order if self.substitutes else self.order[:num_clients]
        present = [self.ready[partition] for partition in order if partition in self.ready]
        chosen = [proxy for proxy in present if criterion is None or criterion.select(proxy)]
        return sorted(chosen[:num_clients], key=lambda proxy: int(proxy.cid))

    def num_available(self) -> int:
        """Return the number of all clients, connected or not: participation is a share of all."""
        return len(self.order)

    def all(self) -> dict[str, ClientProxy]:
        """Return all clients that can be drawn, by partition."""
        return {str(partition): self.ready[partition] for partition in sorted(self.ready)}

    def register(self, client: ClientProxy) -> bool:
        """Nodes enter through the roster."""
        return False

    def unregister(self, client: ClientProxy) -> None:
        """Nodes leave through the roster."""

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Say whether that many clients can be drawn; the roster does the waiting."""
        return len(self.ready) >= num_clients
