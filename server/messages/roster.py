"""Knows which nodes are connected, and which client each of them is.

Every node is asked, when it appears, which partition it serves; one that fails, because its process
was lost or came too late, is asked again. In a simulation, where all clients run the same program
on parts of the same set, one of them answers for all.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from logging import WARNING
from random import SystemRandom
from typing import TypeVar

from flwr.common import Scalar, log
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.seeds import draw_order
from fedmirage.common.site_names import SITE
from fedmirage.server.messages.node_ids import identify, list_admitted
from fedmirage.server.messages.properties import ask_for_properties, read_name, read_properties
from fedmirage.server.messages.replies import Send, WaitingGrid, clean, read_reply
from fedmirage.server.messages.sampling import AlikeProxies, Candidates, PartitionProxy
from fedmirage.server.record.shown import list_partitions

GRACE = 10.0  # seconds to wait for changes once all nodes have come but some were refused
BATCH = 50  # nodes that share a deadline where workers of this host answer for all nodes
PAUSE = 0.2  # seconds between two looks for new nodes
OWN_SENTENCE = ErrorCode.CLIENT_APP_RAISED_EXCEPTION  # whatever our client raises is one
OTHER_CODE = ErrorCode.INVALID_FAB  # how a node answers a run of another release
AGAIN = 2.0  # seconds before nodes that failed are asked again

T = TypeVar("T")


class Roster:
    """The nodes that have named their partition; draws depend on seed and round."""

    def __init__(
        self,
        grid: Grid,
        clients: int,
        seed: int,
        exchange: Send,
        expected: Mapping[str, str | int],
        told: Mapping[str, str] | None = None,
        secret: bool = False,
        no_substitutes: bool = False,
    ) -> None:
        self.grid, self.clients, self.seed, self.exchange = grid, clients, seed, exchange
        # facts that the nodes' data must have: shape, classes, and for a common set its fingerprint
        self.expected = dict(expected)
        # A server without data compares the copies of a common set with each other.
        self.compares_nodes = "fingerprint" not in expected
        self.told = dict(told or {})  # facts that nodes compare with their data themselves
        # Draws come from the system's generator, so that nobody who knows the seed can repeat them.
        self.secret = secret
        # Nobody takes the place of a missing client: under secagg, clients repeat the draw.
        self.no_substitutes = no_substitutes and not secret
        # Whether only nodes with data of their own may enter: the server then tests on all of its
        # set, of which others would train on a share.
        self.only_own = False
        self.proxies: dict[int, PartitionProxy] | AlikeProxies = {}
        self.refused: dict[int, str] = {}  # node id -> why
        self.noted = 0  # sentences of the grid that were taken
        self.failed: dict[int, str] = {}  # the same of nodes that are asked again
        self.outdated: set[int] = set()  # those among them that run another release
        self.names: dict[int, str] = {}  # of sites, by partition
        self.remarks: list[str] = []  # what the next line of notes should say

    @property
    def grid_has_all(self) -> bool:
        """Whether the grid has had all nodes from the beginning, so that none can be missing."""
        return isinstance(self.grid, WaitingGrid)

    def take_notes(self) -> list[str]:
        """Return what the grid says about its workers, and this about nodes, each sentence once."""
        notes = self.grid.notes[self.noted :] if isinstance(self.grid, WaitingGrid) else []
        self.noted += len(notes)
        remarks, self.remarks = self.remarks, []
        return [*notes, *remarks]

    def refresh(self, timeout: float) -> None:
        """Drop the nodes that are gone, and ask the new ones which partition they serve."""
        if isinstance(self.grid, WaitingGrid) and self.grid.alike:
            self._ask_one(self.grid, timeout)
            return
        present = set(self.grid.get_node_ids())
        remaining = {
            partition: proxy
            for partition, proxy in self.proxies.items()
            if proxy.node_id in present
        }
        if len(remaining) < len(self.proxies):
            # A node has gone: one that was refused because of it may now replace it.
            self.refused.clear()
        self.proxies = remaining
        self.refused = {node: reason for node, reason in self.refused.items() if node in present}
        known = {proxy.node_id for proxy in self.proxies.values()} | set(self.refused)
        self.failed = {node: why for node, why in self.failed.items() if node in present - known}
        self.outdated &= self.failed.keys()
        for some in self.cut(sorted(present - known)):
            self._ask(some, timeout)

    def _ask_one(self, grid: WaitingGrid, timeout: float) -> None:
        """Ask a node that answers for all, unless it has answered or was refused."""
        if self.proxies or self.refused:
            return
        self._ask([grid.node_of(0)], timeout)
        if self.proxies:
            self.proxies = AlikeProxies(self.clients, grid, self.proxies[0].properties)

    def cut(self, asked: Sequence[T]) -> Iterator[Sequence[T]]:
        """Cut a list of who is to be asked into parts that each have a deadline.

        Behind a queue that is worked off slowly, a deadline for all would pass before their turn.
        """
        size = BATCH if self.grid_has_all else max(1, len(asked))
        for start in range(0, len(asked), size):
            yield asked[start : start + size]

    def _ask(self, nodes: Sequence[int], timeout: float) -> None:
        """Ask nodes which partition they serve, and note which of them may."""
        asked = [ask_for_properties(node, self.told) for node in nodes]
        for node, reply in self.exchange(asked, timeout):
            self.outdated.discard(node)
            try:
                self._enter(node, read_reply(reply, read_properties))
                self.failed.pop(node, None)
            except WireError as error:
                fails = reply.has_error() and reply.error.code != OWN_SENTENCE
                if fails and reply.error.code == OTHER_CODE:
                    self.outdated.add(node)
                (self.failed if fails else self.refused)[node] = str(error)
                again = "asked again" if fails else "not used"
                log(WARNING, "%s is %s: %s", self._call([node]), again, error)

    def await_all(self, timeout: float, least: int | None = None) -> None:
        """Wait until every partition has its node.

        Where none can be missing, a slow machine may take its time: every answer extends it. Sites
        upgrade one after the other, so if only nodes of another release are missing, `least` nodes
        are enough to begin.
        """
        started = time.monotonic()
        deadline, known, changed = started + timeout, set(self.refused), started
        answered = len(self.proxies)
        while True:
            self.refresh(max(1.0, deadline - time.monotonic()))
            missing = [
                partition for partition in range(self.clients) if partition not in self.proxies
            ]
            enough = least is not None and len(self.proxies) >= least
            if not missing or (enough and self._are_outdated(missing)):
                self.remarks += self._explain_outdated()
                return
            now = time.monotonic()
            if self.grid_has_all and len(self.proxies) > answered:
                deadline, answered = now + timeout, len(self.proxies)
            if set(self.refused) != known:
                known, changed = set(self.refused), now
            if now > deadline:
                raise FedmirageError(self._absent(missing, timeout))
            out = len(self.refused) + len(self.outdated)
            alike = isinstance(self.grid, WaitingGrid) and self.grid.alike
            complete = len(self.proxies) + out >= (1 if alike else self.clients)
            if complete and now - changed > GRACE:  # no other node is expected
                raise FedmirageError(
                    f"{out} of {self.clients} nodes were refused, so no node"
                    f" serves partition {self._list(missing)}.{self._why()}"
                )
            time.sleep(AGAIN if self.failed else PAUSE)

    def _absent(self, missing: list[int], timeout: float) -> str:
        """Say which clients have not appeared or not answered, and what to do about it."""
        if len(set(self.grid.get_node_ids())) >= self.clients:
            return (
                f"{len(missing)} of {self.clients} clients are connected, but have not said within"
                f" {timeout:.0f} s (node-timeout) which partition they serve: partition"
                f" {self._list(missing)} has no client. Raise node-timeout if their machine is"
                f" slow or busy.{self._why()}"
            )
        return (
            f"after {timeout:.0f} s (node-timeout) {len(missing)} of {self.clients} clients"
            f" have not appeared: partition {self._list(missing)}. Start their SuperNodes with"
            " --node-config 'partition-id=N', raise node-timeout, or lower clients; in"
            " Flower's own simulation use flwr run --federation-config"
            f" 'num-supernodes={self.clients}'.{self._why()}"
        )

    def _why(self) -> str:
        """Give the reasons for refusals; a reason that several nodes have appears once."""
        nodes: dict[str, list[int]] = {}
        for node, reason in self.refused.items():
            nodes.setdefault(f"was refused: {reason}", []).append(node)
        for node, reason in self.failed.items():
            again = "was refused" if node in self.outdated else "was asked again and again"
            nodes.setdefault(f"{again}: {reason}", []).append(node)
        return "".join(f" {self._call(some)} {why}." for why, some in nodes.items())

    def _are_outdated(self, missing: list[int]) -> bool:
        """Whether the nodes of these partitions run another release, as far as can be known."""
        admitted = list_admitted()
        places = [admitted[node].partition for node in self.outdated if node in admitted]
        unknown = len(self.outdated) - len(places)
        return len([partition for partition in missing if partition not in places]) <= unknown

    def _explain_outdated(self) -> list[str]:
        """Say which nodes the run goes on without, because they run another release."""
        return [
            f"{self._call([node])} takes no part until it is of the same release:"
            f" {self.failed[node]}"
            for node in sorted(self.outdated)
        ]

    def _call(self, nodes: list[int]) -> str:
        """Call nodes by the sites that they stand for, and others by Flower's numbers."""
        admitted = list_admitted()
        called = [str(admitted[node]) for node in nodes if node in admitted]
        others = ", ".join(str(node) for node in nodes if node not in admitted)
        return ", ".join([*called, *([f"Node {others}"] if others else [])])

    def _list(self, partitions: list[int]) -> str:
        """List partitions, and in parentheses those of their sites whose names are known."""
        known = {site.partition: site.name for site in list_admitted().values()} | self.names
        told = ", ".join(known[one] for one in partitions if known.get(one))
        return f"{list_partitions(partitions)}{f' ({told})' if told else ''}"

    def _enter(self, node: int, properties: dict[str, Scalar]) -> None:
        """Let a node serve its partition, or raise a sentence that says why it may not."""
        if not isinstance(properties.get("partition"), int):
            raise WireError("it does not name its partition by a number")
        partition = int(properties["partition"])
        if not 0 <= partition < self.clients:
            raise WireError(
                f"its partition-id is {partition}, but there are {self.clients} clients (0 to"
                f" {self.clients - 1})"
            )
        name = identify(node, partition, read_name(properties))
        if partition in self.proxies:
            raise WireError(
                f"another node already has partition-id={partition}; give every SuperNode its own"
            )
        others = [one.partition for one in self.proxies.values() if name and one.name == name]
        if others:
            raise WireError(
                f"it says that it is {name!r}, and so does the node of client {others[0]}; give"
                " every site a --name of its own"
            )
        if self.only_own and not properties.get("own"):
            raise WireError(
                "the other nodes have data of their own, so the server tests on its whole set, and"
                " this node would train on a share of it; start it with"
                " --node-config 'data=\"...\"'"
            )
        for key, value in self.expected.items():
            if properties.get(key) != value and not (
                key == "fingerprint" and properties.get("own")
            ):
                among_nodes = self.compares_nodes and key == "fingerprint"
                whose = "another node's" if among_nodes else "the server's"
                raise WireError(
                    f"the {key} of its data is {clean(repr(properties.get(key)))}, {whose}"
                    f" {value!r}; give both the same data set"
                )
        if self.compares_nodes and "fingerprint" in properties:
            self.expected.setdefault("fingerprint", str(properties["fingerprint"]))
        called = {**properties, SITE: name}
        assert isinstance(self.proxies, dict)  # where one answers for all, it enters first
        self.proxies[partition] = PartitionProxy(partition, node, self.grid, called)
        self.names |= {partition: name} if name else {}

    def draw(self, number: int, without: Collection[int] = ()) -> Candidates:
        """Prepare a draw for a round, without some partitions.

        The order of all partitions is seeded. It does not depend on which are connected, so a lost
        node changes nothing for the others. A secret draw has an order that nobody can repeat.
        """
        order = (
            SystemRandom().sample(range(self.clients), self.clients)
            if self.secret
            else draw_order(self.seed, number, self.clients)
        )
        return Candidates(self.proxies, without, order, not self.no_substitutes)

    @property
    def all_own(self) -> bool:
        """Whether every connected node trains on data of its own."""
        if isinstance(self.proxies, AlikeProxies):
            return False  # each has a part of the server's set
        return all(proxy.properties.get("own") for proxy in self.proxies.values())
