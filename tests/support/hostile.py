"""A server that breaks the rules of secure aggregation, against clients that keep them.

The clients are the real mod with real cryptography; only their training is replaced by a
vector that the test knows. The server does each exchange as the rules say unless a test asks for
something else, keeps whatever it learns, and finally tries to open the sum of some vectors. Clients
that are its accomplices show it their private keys.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.secagg.mod import secure
from fedmirage.common.secagg import keys
from fedmirage.common.secagg import protocol as wire
from fedmirage.common.secagg.keys import reduce, split, unpack
from fedmirage.common.secagg.protocol import SecureTask, Try, write_clients, write_number
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.secagg.shamir import SHARE, combine_shares
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.payload import LAYOUT
from tests.support.inprocess import node_id

TOKEN = "0123456789abcdef"
SIZE = 4  # numbers per vector
MODEL = [np.zeros(3, np.float32)]


class RefusedError(Exception):
    """A client has refused a request, and said why."""


class TooFewError(Exception):
    """The server has too few shares of a key."""


class HostileServer:
    """Asks clients whatever the test likes; clients are named by their partitions."""

    def __init__(
        self,
        memory: Path,
        clients: int,
        secagg: str = "on",
        node_configs: dict[int, dict[str, str]] | None = None,
        accomplices: Iterable[int] = (),
        **settings: Any,
    ) -> None:
        self.config = configure({"secagg": secagg, "clients": clients, **settings})
        assert isinstance(self.config.secagg_params, SecAggOn)
        self.secagg, self.memory = self.config.secagg_params, memory
        self.quorum = self.secagg.quorum(self.config.drawn)
        self.width = self.secagg.width(self.config.drawn)
        self.accomplices = set(accomplices)
        rng = np.random.default_rng(0)
        self.vectors = {who: rng.integers(-(2**38), 2**38, SIZE) for who in range(clients)}
        self.node_configs = node_configs or {}
        self.model = MODEL
        self.told: dict[int, RunConfig] = {}  # other settings, for some clients
        run = self.config
        self.rules = f"{run.secagg} {run.clients} {run.participation} {run.seed} {run.dp}"
        self.contexts: dict[int, Context] = {}
        self.restart_nodes()

    def restart_nodes(self) -> None:
        """Start all nodes again: what they keep in their own main memory is gone."""
        for who in self.vectors:
            own: dict[str, Any] = {"partition-id": who, **self.node_configs.get(who, {})}
            self.contexts[who] = Context(1, node_id(who), own, RecordDict(), {})

    # The exchanges

    def ask(self, who: int, stage: str, request: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """Send one request to one client; a refusal is raised."""
        content = RecordDict()
        if stage == wire.MASK:
            content = compat.fitins_to_recorddict(self.instructions(**changed), True)
        content[wire.RECORD] = ConfigRecord({"stage": stage, **request})
        message = Message(content, node_id(who), MessageType.TRAIN)
        message.metadata.__dict__["_message_id"] = "1"

        def train(asked: Message, _: Context) -> Message:
            result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([self.vectors[who]]), 1, {})
            return Message(compat.fitres_to_recorddict(result, True), reply_to=asked)

        told = self.told.get(who, self.config)
        reply = secure(told, self.memory)(message, self.contexts[who], train)
        records = reply.content.config_records
        if wire.REFUSAL in records:
            raise RefusedError(records[wire.REFUSAL]["reason"])
        return dict(records[wire.RECORD])

    def instructions(self, **changed: Any) -> FitIns:
        """What the clients are to train."""
        model = changed.pop("model", self.model)
        told = {"round": self.round, "token": self.token, LAYOUT: f"shared:{len(model)}"}
        return FitIns(ndarrays_to_parameters(model), {**told, **changed})

    def exchange_keys(self, clients: Iterable[int], number: int = 1, token: str = TOKEN) -> None:
        """Begin a try with these clients, and let them send their public keys."""
        self.clients, self.round, self.token = sorted(clients), number, token
        self.keys: dict[int, bytes] = {}
        self.signatures: dict[int, bytes] = {}
        self.task = SecureTask.of(self.instructions())
        for who in self.clients:
            request = {"version": wire.VERSION, **self.task.write()}
            answer = self.ask(who, wire.ADVERTISE, request)
            self.keys[who], self.signatures[who] = answer["keys"], answer["signature"]

    def share_keys(self, forged: dict[int, dict[int, bytes]] | None = None) -> None:
        """Let the clients send key shares; `forged` holds false keys by client and owner."""
        self.tries: dict[int, Try] = {}  # as each client was told
        self.sealed: dict[tuple[int, int], bytes] = {}
        for who in self.clients:
            told = {**self.keys, **(forged or {}).get(who, {})}
            self.tries[who] = Try(self.task, told, self.rules)
            signatures = [self.signatures[other] for other in self.clients]
            request = {**self.tries[who].write(), "signatures": signatures}
            parts = split(self.ask(who, wire.SHARE, request)["sealed"], wire.SEALED)
            others = [other for other in self.clients if other != who]
            self.sealed |= {(who, other): part for other, part in zip(others, parts, strict=True)}
        self.this = Try(self.task, self.keys, self.rules)
        self.masked: dict[int, np.ndarray] = {}
        self.seeds: dict[int, dict[int, bytes]] = {who: {} for who in self.clients}
        self.secrets: dict[int, dict[int, bytes]] = {who: {} for who in self.clients}
        self.tags: dict[int, dict[int, bytes]] = {who: {} for who in self.clients}

    def begin(self, clients: Iterable[int], number: int = 1, token: str = TOKEN) -> None:
        """Do the first two exchanges as the rules say."""
        self.exchange_keys(clients, number, token)
        self.share_keys()

    def collect(self, who: int, sources: list[int] | None = None, **changed: Any) -> None:
        """Get a client's masked vector; `sources` is who the server says has sent key shares."""
        told = [other for other in self.clients if other != who] if sources is None else sources
        sealed = b"".join(self.sealed[source, who] for source in told)
        answer = self.ask(who, wire.MASK, {"sealed": sealed}, **changed)
        self.masked[who] = unpack(answer["vector"], self.width)

    def agree(self, who: int, survivors: Iterable[int]) -> None:
        """Let a client say that it would open the sum of these."""
        left = sorted(survivors)
        tags = split(self.ask(who, wire.AGREE, {"survivors": left})["tags"], keys.TAG)
        others = [other for other in left if other != who]
        for other, tag in zip(others, tags, strict=True):
            self.tags[other][who] = tag

    def unmask(self, who: int, survivors: Iterable[int], helped: bool = False) -> None:
        """Get a client's shares: of own masks of the survivors, of masking keys of the others.

        If it is helped, the accomplices add their word for these survivors.
        """
        left = sorted(survivors)
        told = dict(self.tags[who])
        if helped:
            told |= {one: self.lie(one, who, left) for one in self.accomplices & set(left) - {who}}
        sources = sorted(told)
        tags = b"".join(told[source] for source in sources)
        request = {"survivors": left, "sources": sources, "tags": tags}
        shares = split(self.ask(who, wire.OPEN, request)["shares"], SHARE)
        for owner, share in zip(self.clients, shares, strict=True):
            kept = self.seeds if owner in left else self.secrets
            kept[owner][self.this.points[who]] = share

    # What accomplices add

    def private(self, who: int, pair: int) -> bytes:
        """A private key of an accomplice."""
        assert who in self.accomplices
        known = self.contexts[who].state.config_records[wire.RECORD]["private"]
        return split(known, keys.KEY)[pair]  # type: ignore[arg-type]

    def lie(self, source: int, target: int, survivors: list[int]) -> bytes:
        """The tag with which an accomplice says whatever the server likes."""
        key = keys.agree(self.private(source, wire.SEALING), self.this.key(target, wire.SEALING))
        said = (b"survivors", self.this.digest, write_number(source), write_number(target))
        return keys.make_tag(key, *said, write_clients(survivors))

    def take_shares(self, owner: int) -> None:
        """Take the shares of both keys of a client that the accomplices hold."""
        for holder in self.accomplices & set(self.clients) - {owner}:
            public = self.this.key(owner, wire.SEALING)
            key = keys.agree(self.private(holder, wire.SEALING), public)
            context = (b"shares", self.this.digest, write_number(owner), write_number(holder))
            content = keys.unseal(key, self.sealed[owner, holder], *context)
            assert content is not None
            self.seeds[owner][self.this.points[holder]] = content[:SHARE]
            self.secrets[owner][self.this.points[holder]] = content[SHARE:]

    # What it makes of that

    def combine(self, shares: dict[int, bytes]) -> bytes:
        """Recover a key."""
        if len(shares) < self.quorum:
            raise TooFewError(f"{len(shares)} of {self.quorum} shares")
        found = combine_shares(dict(list(shares.items())[: self.quorum]))
        assert found is not None
        return found

    def open(self, clients: set[int], known: dict[int, bytes] | None = None) -> np.ndarray:
        """Open the sum of some vectors, with the shares that were sent.

        `known` holds private masking keys of the server's own, which stand for those of a client.
        """
        total = np.zeros(SIZE, np.int64)
        for who in clients:
            total += self.masked[who] - keys.draw_mask(self.combine(self.seeds[who]), SIZE)
            for other in set(self.clients) - clients:
                if other in self.accomplices:
                    own, their = self.private(other, wire.MASKING), self.this.key(who, wire.MASKING)
                elif other in (known or {}):
                    own, their = known[other], self.this.key(who, wire.MASKING)  # type: ignore[index]
                elif len(self.secrets[other]) >= self.quorum:
                    own = self.combine(self.secrets[other])
                    their = self.this.key(who, wire.MASKING)
                else:  # the client's own key opens what it has in common with anybody
                    own = self.combine(self.secrets[who])
                    their = self.this.key(other, wire.MASKING)
                mask = keys.draw_mask(keys.agree(own, their), SIZE)
                total += -mask if who > other else mask
        return reduce(total, self.width)

    def sum_of(self, clients: Iterable[int]) -> np.ndarray:
        """What the server should not learn, or should."""
        return np.sum([self.vectors[who] for who in clients], axis=0)
