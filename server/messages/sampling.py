"""Who is there, and who is drawn: clients by partition, from the run's own seeded generator.

Flower's node ids are random in every run, so its own client manager cannot repeat a draw. Here a
client *is* its partition; which node serves that partition is asked once, and again for every node
that appears later.
"""

import time
from collections.abc import Callable, Mapping
from logging import WARNING

from flwr.app import Message
from flwr.common import GetPropertiesIns, MessageTypeLegacy, Scalar, log
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.criterion import Criterion
from flwr.serverapp import Grid

from common.errors import FedmirageError
from common.seeds import numpy_generator
from server.messages.exchange import Replies

Send = Callable[[list[Message], float], Replies]
GRACE = 10.0  # seconds that a full but refused federation has to mend itself


class PartitionProxy(GridClientProxy):
    """A client as strategies see it: its `cid` is the number of its partition."""

    def __init__(
        self, partition: int, node_id: int, grid: Grid, properties: dict[str, Scalar]
    ) -> None:
        super().__init__(node_id, grid, 0)
        self.cid, self.partition = str(partition), partition
        self.properties = properties


class Roster(ClientManager):
    """The nodes that have told their partition, drawn from by (seed, round)."""

    def __init__(
        self,
        grid: Grid,
        clients: int,
        seed: int,
        exchange: Send,
        expected: Mapping[str, str | int],
        told: Mapping[str, str] | None = None,
    ) -> None:
        self.grid, self.clients, self.seed, self.exchange = grid, clients, seed, exchange
        # what the nodes' data must look like: shape, classes, and for a common set its fingerprint
        self.expected = expected
        self.told = dict(told or {})  # what nodes compare with their data themselves
        self.only_own = False  # the server tests on what a node without data would train on
        self.round = 0  # set by the rounds' loop before each draw
        self.resting: set[int] = set()  # partitions that this round's further tries do without
        self.proxies: dict[int, PartitionProxy] = {}
        self.refused: dict[int, str] = {}  # node id -> why

    def refresh(self, timeout: float) -> None:
        """Drop the nodes that are gone, and ask those that are new who they are."""
        present = set(self.grid.get_node_ids())
        here = {
            partition: proxy
            for partition, proxy in self.proxies.items()
            if proxy.node_id in present
        }
        if len(here) < len(
            self.proxies
        ):  # somebody has gone: a node that was refused beside it may now take its place
            self.refused.clear()
        self.proxies = here
        self.refused = {node: reason for node, reason in self.refused.items() if node in present}
        known = {proxy.node_id for proxy in self.proxies.values()} | set(self.refused)
        new = sorted(present - known)
        asked = [
            Message(
                compat.getpropertiesins_to_recorddict(GetPropertiesIns({**self.told})),
                node,
                MessageTypeLegacy.GET_PROPERTIES,
            )
            for node in new
        ]
        for node, reply in self.exchange(asked, timeout) if asked else []:
            if reply.has_error():
                self._refuse(node, f"it answered with an error: {reply.error.reason}")
            else:
                self._enter(node, compat.recorddict_to_getpropertiesres(reply.content).properties)

    def await_all(self, timeout: float) -> None:
        """Wait until every partition has its node."""
        started = time.monotonic()
        deadline, known, since = started + timeout, set(self.refused), started
        while True:
            self.refresh(max(1.0, deadline - time.monotonic()))
            missing = [
                partition for partition in range(self.clients) if partition not in self.proxies
            ]
            if not missing:
                return
            now = time.monotonic()
            if set(self.refused) != known:
                known, since = set(self.refused), now
            if now > deadline:
                raise FedmirageError(self._absent(missing, timeout))
            complete = len(self.proxies) + len(self.refused) >= self.clients
            if complete and now - since > GRACE:  # nobody else is expected
                raise FedmirageError(
                    f"{len(self.refused)} of {self.clients} nodes were refused, and so nobody"
                    f" serves partition {_some(missing)}.{self._why()}"
                )
            time.sleep(0.2)

    def _absent(self, missing: list[int], timeout: float) -> str:
        """Who has not appeared, and what to do about it."""
        return (
            f"after {timeout:.0f} s (node-timeout) {len(missing)} of {self.clients} clients"
            f" have not appeared: partition {_some(missing)}. Start their SuperNodes with"
            " --node-config 'partition-id=N', raise node-timeout, or lower clients; in"
            " Flower's own simulation say flwr run --federation-config"
            f" 'num-supernodes={self.clients}'.{self._why()}"
        )

    def _why(self) -> str:
        """The reasons for refusals, those that several nodes share only once."""
        nodes: dict[str, list[str]] = {}
        for node, reason in self.refused.items():
            nodes.setdefault(reason, []).append(str(node))
        return "".join(
            f" Node {', '.join(some)} was refused: {reason}." for reason, some in nodes.items()
        )

    def _enter(self, node: int, properties: dict[str, Scalar]) -> None:
        if "error" in properties:
            return self._refuse(node, str(properties["error"]))
        partition = int(properties.get("partition", -1))
        if not 0 <= partition < self.clients:
            return self._refuse(
                node,
                f"its partition-id is {partition}, but there are {self.clients} clients (0 to"
                f" {self.clients - 1})",
            )
        if partition in self.proxies:
            return self._refuse(
                node,
                f"another node has partition-id={partition} already; give every SuperNode its own",
            )
        if self.only_own and not properties.get("own"):
            return self._refuse(
                node,
                "the other nodes have data of their own, and the server tests on all of its set, of"
                " which this node would get a share; start it with --node-config 'data=\"...\"'",
            )
        for key, value in self.expected.items():
            if properties.get(key) != value and not (
                key == "fingerprint" and properties.get("own")
            ):
                return self._refuse(
                    node,
                    f"the {key} of its data is {properties.get(key)!r}, the server's {value!r};"
                    " give both the same data set",
                )
        self.proxies[partition] = PartitionProxy(partition, node, self.grid, properties)
        return None

    def _refuse(self, node: int, reason: str) -> None:
        self.refused[node] = reason
        log(WARNING, "node %s is not used: %s", node, reason)

    def sample(
        self,
        num_clients: int,
        min_num_clients: int | None = None,
        criterion: Criterion | None = None,
    ) -> list[ClientProxy]:
        """Draw for the current round: the first of a seeded order of all partitions who are there,
        in partition order.

        The order does not depend on who is there, so that a lost node changes nothing for the
        others.
        """
        order = numpy_generator(self.seed, "sampling", self.round).permutation(self.clients)
        there = self.proxies.keys() - self.resting
        present = [self.proxies[partition] for partition in map(int, order) if partition in there]
        chosen = [proxy for proxy in present if criterion is None or criterion.select(proxy)][
            :num_clients
        ]
        return sorted(chosen, key=lambda proxy: int(proxy.cid))

    @property
    def all_own(self) -> bool:
        """Whether every node that is there trains on data of its own."""
        return all(proxy.properties.get("own") for proxy in self.proxies.values())

    def num_available(self) -> int:
        """How many clients the run has, there or not: a share of participation is a share of
        all."""
        return self.clients

    def all(self) -> dict[str, ClientProxy]:
        """Everybody who is there, by partition."""
        return {proxy.cid: proxy for _, proxy in sorted(self.proxies.items())}

    def register(self, client: ClientProxy) -> bool:
        """Nodes enter through `refresh`."""
        return False

    def unregister(self, client: ClientProxy) -> None:
        """Nodes leave through `refresh`."""

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Part of Flower's interface; waiting is done by `await_all`."""
        return len(self.proxies) >= num_clients


def _some(partitions: list[int]) -> str:
    """The first few."""
    shown = ", ".join(map(str, partitions[:8]))
    return shown + (" and more" if len(partitions) > 8 else "")
