"""A server that breaks the rules of secure aggregation, against clients that keep them.

The clients are the real mod with real cryptography; only their training is replaced by a
vector that the test knows. The server does each exchange as the rules say unless a test asks for
something else, keeps whatever it learns, and finally tries to open the sum of some vectors.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.secagg.mod import secure
from fedmirage.common.secagg.agreement import (
    AGREE,
    AGREEMENT,
    DRAW,
    LOT,
    LOTS,
    NODES,
    SEALED_LOT,
    SIGNATURES,
    SURVIVORS,
    TAGS,
)
from fedmirage.common.secagg.circle import CIRCLE, Circle
from fedmirage.common.secagg.keys import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_shared_key,
)
from fedmirage.common.secagg.masks import GENERATOR, MASKS, mask
from fedmirage.common.secagg.settings import MODULUS_BITS, REFUSAL, SecAggOn
from fedmirage.common.secagg.shamir import combine_shares
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import decode
from tests.support.inprocess import node_id

TOKEN = "0123456789abcdef"
SIZE = 4  # numbers per vector


class RefusedError(Exception):
    """A client has refused a request, and said why."""


class HostileServer:
    """Asks clients whatever the test likes; clients are named by their partitions."""

    def __init__(
        self,
        memory: Path,
        clients: int,
        secagg: str = "on",
        node_configs: dict[int, dict[str, str]] | None = None,
    ) -> None:
        self.config = configure({"secagg": secagg, "clients": clients})
        assert isinstance(self.config.secagg_params, SecAggOn)
        self.secagg, self.memory = self.config.secagg_params, memory
        rng = np.random.default_rng(0)
        self.vectors = {who: rng.uniform(-4, 4, SIZE) for who in range(clients)}
        self.node_configs = node_configs or {}
        self.contexts: dict[int, Context] = {}
        self.restart_nodes()

    def restart_nodes(self) -> None:
        """Start all nodes again: what they keep in their own main memory is gone."""
        for who in self.vectors:
            own: dict[str, Any] = {"partition-id": who, **self.node_configs.get(who, {})}
            self.contexts[who] = Context(1, node_id(who), own, RecordDict(), {})

    # The exchanges

    def ask(self, who: int, stage: str, request: dict[str, Any], **records: Any) -> ConfigRecord:
        """Send one request to one client; a refusal is raised."""
        content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord({**request, Key.STAGE: stage})})
        for name, record in records.items():
            content[name] = record
        if stage == Stage.COLLECT_MASKED_VECTORS:
            ins = FitIns(Parameters([], "none"), {"round": self.round, "token": self.token})
            for name, record in compat.fitins_to_recorddict(ins, True).items():
                content[name] = record
        message = Message(content, node_id(who), MessageType.TRAIN)
        message.metadata.__dict__["_message_id"] = "1"

        def train(asked: Message, _: Context) -> Message:
            vector = ndarrays_to_parameters([self.vectors[who]])
            result = FitRes(Status(Code.OK, ""), vector, 1, {})
            return Message(compat.fitres_to_recorddict(result, True), reply_to=asked)

        reply = secure(self.config, self.memory)(message, self.contexts[who], train)
        records = reply.content.config_records
        if REFUSAL in records:
            raise RefusedError(records[REFUSAL]["reason"])
        if SIGNATURES in records:
            (self.signatures[who],) = records[SIGNATURES][TAGS]  # type: ignore[misc]
        return records[RECORD_KEY_CONFIGS]

    def exchange_keys(self, clients: Iterable[int], number: int = 1, token: str = TOKEN) -> None:
        """Begin a try with these clients, and let them send their public keys."""
        self.clients, self.round, self.token = list(clients), number, token
        self.plan = self.secagg.key_plan(len(self.clients))
        nodes = {node_id(who): who for who in self.clients}
        self.circle = Circle.gather(token, number, nodes)
        self.keys: dict[int, list[bytes]] = {}
        self.signatures: dict[int, bytes] = {}
        self.sealed_lots: dict[int, bytes] = {}  # by node, as the lots
        self.lots: dict[int, bytes] = {}
        for who in self.clients:
            answer = self.ask(who, Stage.SETUP, self.settings(), **{CIRCLE: self.circle.write()})
            self.keys[who] = [answer[Key.PUBLIC_KEY_1], answer[Key.PUBLIC_KEY_2]]  # type: ignore[list-item]
            if SEALED_LOT in answer:
                self.sealed_lots[node_id(who)] = answer[SEALED_LOT]  # type: ignore[assignment]

    def draw(self, who: int, sealed: dict[int, bytes] | None = None) -> None:
        """Let a client show its lot; `sealed` is what the server says binds everybody."""
        told = self.sealed_lots if sealed is None else sealed
        record = ConfigRecord({NODES: list(told), TAGS: list(told.values())})
        answer = self.ask(who, DRAW, {}, **{LOTS: record})
        self.lots[node_id(who)] = answer[LOT]  # type: ignore[assignment]

    def take_seats(self) -> None:
        """Let the clients draw lots as the rules say, unless all of them are neighbours."""
        if self.sealed_lots:
            for who in self.clients:
                self.draw(who)
            self.circle = self.circle.seat(self.lots)

    def settings(self) -> dict[str, Any]:
        """What the first request of an honest server holds."""
        return {
            Key.SAMPLE_NUMBER: len(self.clients),
            Key.SHARE_NUMBER: self.plan.shares,
            Key.THRESHOLD: self.plan.threshold,
            Key.CLIPPING_RANGE: self.secagg.clip,
            Key.TARGET_RANGE: 2**self.secagg.bits,
            Key.MOD_RANGE: 2**MODULUS_BITS,
            Key.MAX_WEIGHT: 1.0,
            MASKS: GENERATOR,
        }

    def neighbours(self, who: int) -> set[int]:
        """Whom the rules make neighbours of a client, itself among them."""
        found = self.circle.neighbours(node_id(who), self.plan.shares)
        return {self.circle.partitions[node] for node in found}

    def share_keys(
        self,
        graph: dict[int, set[int]] | None = None,
        forged: dict[int, dict[int, list[bytes]]] | None = None,
    ) -> None:
        """Let the clients send key shares; `forged` holds false keys by client and neighbour."""
        self.graph = graph or {who: self.neighbours(who) for who in self.clients}
        self.sealed: dict[tuple[int, int], bytes] = {}
        for who in self.clients:
            told = {other: self.keys[other] for other in self.graph[who]}
            told |= (forged or {}).get(who, {})
            request = {str(node_id(other)): keys for other, keys in told.items()}
            nodes, signatures = map(node_id, self.signatures), list(self.signatures.values())
            passed = {SIGNATURES: ConfigRecord({NODES: list(nodes), TAGS: signatures})}
            drawn = ConfigRecord({NODES: list(self.lots), TAGS: list(self.lots.values())})
            answer = self.ask(who, Stage.SHARE_KEYS, request, **passed, **{LOTS: drawn})
            parts = zip(answer[Key.DESTINATION_LIST], answer[Key.CIPHERTEXT_LIST], strict=True)  # type: ignore[arg-type]
            self.sealed |= {(who, partition_of(node)): part for node, part in parts}
        self.masked: dict[int, np.ndarray] = {}
        self.masked_with: dict[int, list[int]] = {}
        self.seeds: dict[int, list[bytes]] = {who: [] for who in self.clients}
        self.secrets: dict[int, list[bytes]] = {who: [] for who in self.clients}
        self.tags: dict[int, dict[int, bytes]] = {who: {} for who in self.clients}

    def begin(self, clients: Iterable[int], number: int = 1, token: str = TOKEN) -> None:
        """Do the first two exchanges as the rules say."""
        self.exchange_keys(clients, number, token)
        self.take_seats()
        self.share_keys()

    def collect(self, who: int, sources: list[int] | None = None) -> None:
        """Get a client's masked vector; `sources` is who the server says has sent key shares."""
        told = sorted(self.graph[who] - {who}) if sources is None else sources
        answer = self.ask(
            who,
            Stage.COLLECT_MASKED_VECTORS,
            {
                Key.SOURCE_LIST: [node_id(source) for source in told],
                Key.CIPHERTEXT_LIST: [self.sealed[source, who] for source in told],
            },
        )
        self.masked[who] = decode(answer[Key.MASKED_PARAMETERS])[1]  # type: ignore[arg-type]
        self.masked_with[who] = told

    def agree(self, who: int, survivors: Iterable[int]) -> None:
        """Let a client say that it would open the sum of these."""
        told = {SURVIVORS: sorted(map(node_id, survivors))}
        answer = self.ask(who, AGREE, told)
        for node, tag in zip(answer[NODES], answer[TAGS], strict=True):  # type: ignore[arg-type]
            self.tags[partition_of(node)][who] = tag

    def unmask(self, who: int, active: Iterable[int], dead: Iterable[int]) -> None:
        """Get a client's shares: of private masks of the active, of keys of the dead."""
        active, dead = list(active), list(dead)
        tags = self.tags[who]
        passed = ConfigRecord({NODES: list(map(node_id, tags)), TAGS: list(tags.values())})
        answer = self.ask(
            who,
            Stage.UNMASK,
            {
                Key.ACTIVE_NODE_ID_LIST: list(map(node_id, active)),
                Key.DEAD_NODE_ID_LIST: list(map(node_id, dead)),
            },
            **{AGREEMENT: passed},
        )
        shares: list[bytes] = answer[Key.SHARE_LIST]  # type: ignore[assignment]
        for owner, share in zip(active, shares, strict=False):
            self.seeds[owner].append(share)
        for owner, share in zip(dead, shares[len(active) :], strict=True):
            self.secrets[owner].append(share)

    # What it makes of that

    def open(self, clients: set[int], known: dict[int, Any] | None = None) -> np.ndarray:
        """Open the sum of some vectors, with the shares that were sent.

        `known` holds private keys of the server's own, which stand for those of a client.
        """
        total = np.zeros(SIZE, np.int64)
        for who in clients:
            assert len(self.seeds[who]) >= self.plan.threshold, "too few shares of a private mask"
            total += self.masked[who] - self.stream(combine_shares(self.seeds[who]))
            for other in self.masked_with[who]:
                if other in clients and who in self.masked_with[other]:
                    continue
                if other in (known or {}):
                    key = known[other]  # type: ignore[index]
                else:
                    assert len(self.secrets[other]) >= self.plan.threshold, (
                        "too few shares of a key"
                    )
                    key = bytes_to_private_key(combine_shares(self.secrets[other]))
                pair = generate_shared_key(key, bytes_to_public_key(self.keys[who][0]))
                total += self.stream(pair) * (-1 if node_id(who) > node_id(other) else 1)
        steps = total % 2**MODULUS_BITS - len(clients) * 2 ** (self.secagg.bits - 1)
        return np.asarray(steps * self.secagg.step)

    def stream(self, seed: bytes) -> np.ndarray:
        """The part of a mask that covers the vector; the first number covers Flower's factor."""
        return mask(seed, 2**MODULUS_BITS, [(1,), (SIZE,)])[1]

    def sum_of(self, clients: Iterable[int]) -> np.ndarray:
        """What the server should not learn, or should."""
        return np.sum([self.vectors[who] for who in clients], axis=0)


def partition_of(node: int) -> int:
    """The inverse of node_id."""
    return (node_id(0) - node) // (node_id(0) - node_id(1))
