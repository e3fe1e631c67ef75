"""Draws the clients of a round, which strategies see as Flower's clients.

Flower's node ids are random in every run, so its own client manager cannot repeat a draw. Here a
client *is* its partition.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from flwr.app import Message, RecordDict
from flwr.common import Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.criterion import Criterion
from flwr.serverapp import Grid

from fedmirage.common.site_names import SITE
from fedmirage.server.messages.replies import WaitingGrid


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
        self,
        proxies: Mapping[int, PartitionProxy],
        without: Collection[int],
        order: Sequence[int],
        substitutes: bool,
    ) -> None:
        self.proxies, self.without = proxies, without  # by partition; those that are not drawn
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
        present = (self.proxies[partition] for partition in order if self.is_ready(partition))
        chosen = (proxy for proxy in present if criterion is None or criterion.select(proxy))
        return sorted(islice(chosen, num_clients), key=lambda proxy: int(proxy.cid))

    def is_ready(self, partition: int) -> bool:
        """Whether a client may be drawn."""
        return partition in self.proxies and partition not in self.without

    def num_available(self) -> int:
        """Return the number of all clients, connected or not: participation is a share of all."""
        return len(self.order)

    def all(self) -> dict[str, ClientProxy]:
        """Return all clients that can be drawn, by partition."""
        ready = filter(self.is_ready, sorted(self.proxies))
        return {str(partition): self.proxies[partition] for partition in ready}

    def register(self, client: ClientProxy) -> bool:
        """Nodes enter through the roster."""
        return False

    def unregister(self, client: ClientProxy) -> None:
        """Nodes leave through the roster."""

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Say whether that many clients can be drawn; the roster does the waiting."""
        return sum(map(self.is_ready, self.proxies)) >= num_clients


class AlikeProxies(Mapping[int, PartitionProxy]):
    """The clients of a simulation, each made when it is drawn; the others cost nothing."""

    def __init__(self, clients: int, grid: WaitingGrid, properties: dict[str, Scalar]) -> None:
        self.clients, self.grid, self.properties = clients, grid, properties

    def __len__(self) -> int:
        return self.clients

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.clients))

    def __contains__(self, partition: object) -> bool:
        return partition in range(self.clients)

    def __getitem__(self, partition: int) -> PartitionProxy:
        if partition not in self:
            raise KeyError(partition)
        node = self.grid.node_of(partition)
        return PartitionProxy(partition, node, self.grid, self.properties)
