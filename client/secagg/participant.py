"""One client of a secure round: what it requires of each message, and what it answers.

    advertise   its public keys
    share       a share of its two secret keys for every client, sealed
    mask        its vector, hidden by its own mask and by one in common with every other client
    agree       only if somebody was lost: whom it takes to be left, with a tag for each of them
    open        a share per client: of its own mask if it is left, of its masking key if it was lost

The server is trusted neither with a single update nor with telling the truth: whatever it says must
follow from the run's configuration, from what it said before, or from what other clients have said
with a tag that the server cannot make. What a client keeps between messages is in Flower's state of
the node; what must outlive a crash is in its notes (notes.py). docs/security.md has the proof.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hmac import compare_digest
from pathlib import Path
from typing import Any, cast

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.secagg.notes import Notes
from fedmirage.client.secagg.pins import Pins
from fedmirage.common.errors import WireError
from fedmirage.common.secagg import keys, shamir
from fedmirage.common.secagg import protocol as wire
from fedmirage.common.secagg.keys import pack, split
from fedmirage.common.secagg.protocol import (
    AGREE,
    OPEN,
    RefusalError,
    SecureTask,
    Try,
    are_of_one_run,
    write_number,
)
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.seeds import draw_order
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.payload import decode_one

# What may be asked next; before it opens, a client may be asked to agree.
AFTER = {wire.ADVERTISE: wire.SHARE, wire.SHARE: wire.MASK, wire.MASK: OPEN}


@dataclass
class Participant:
    """One client's side of one message."""

    message: Message
    context: Context
    config: RunConfig
    secagg: SecAggOn
    memory: Path
    train: ClientAppCallable

    def answer(self) -> Message:
        """Answer the request of one exchange; raise a sentence to refuse."""
        stage, expected = str(self.request.get("stage")), self.state.get("expected", wire.ADVERTISE)
        if stage not in (wire.ADVERTISE, expected, AGREE if expected == OPEN else wire.ADVERTISE):
            raise WireError(f"the server asks this client to {stage} before it may")
        stages: dict[str, Callable[[], dict[str, Any]]] = {
            wire.ADVERTISE: self.advertise,
            wire.SHARE: self.share,
            wire.MASK: self.mask,
            AGREE: self.agree,
            OPEN: self.open,
        }
        answer = stages[stage]()
        if stage in AFTER:
            self.state["expected"] = AFTER[stage]
        return Message(RecordDict({wire.RECORD: ConfigRecord(answer)}), reply_to=self.message)

    # The exchanges

    def advertise(self) -> dict[str, Any]:
        """Take down what is to be trained, and send fresh public keys."""
        if (version := self.request.get("version")) != wire.VERSION:
            raise WireError(
                f"the server speaks {version!r}, this client {wire.VERSION!r}; run the same"
                " version on both"
            )
        task = SecureTask.read(self.request)
        self.notes_on(task).require_new()
        if not are_of_one_run(self.state.get("token", task.token), task.token):
            raise WireError("the server gives one run two tokens, as if its rounds were new")
        private = [keys.draw_private_key() for _ in range(wire.PAIRS)]
        public = b"".join(map(keys.find_public_key, private))
        record = ConfigRecord({**task.write(), "private": b"".join(private), "own": public})
        self.context.state.config_records[wire.RECORD] = record
        signature = Pins.of(self.context).sign(task, self.own, public)
        return {"version": wire.VERSION, "keys": public, "signature": signature}

    def share(self) -> dict[str, Any]:
        """Give every client a share of the keys of this one."""
        this = Try.read(self.task, self.request, self.rules)
        self.check_clients(this)
        self.notes.require_same_clients(this.clients)
        self.state.update(this.write())
        quorum, number = self.quorum, len(this.clients)
        own, masking = (
            shamir.create_shares(self.private(pair), quorum, number)
            for pair in (wire.OWN, wire.MASKING)
        )
        parts = {
            partition: first + second
            for partition, first, second in zip(this.clients, own, masking, strict=True)
        }
        self.state["shares"] = parts[self.own]
        sealed = b""
        for other in this.others(self.own):
            context = self.context_of(this, self.own, other)
            sealed += keys.seal(self.common_key(this, other), parts[other], *context)
        return {"sealed": sealed}

    def mask(self) -> dict[str, Any]:
        """Train, and send the masked vector; everybody's key shares must have come."""
        this = self.current
        self.state["received"] = self.open_shares(this)
        ins = compat.recorddict_to_fitins(self.message.content, True)
        if SecureTask.of(ins) != self.task:
            raise WireError(
                f"the server asks to train round {ins.config.get('round')!r} of run"
                f" {ins.config.get('token')!r}, but the keys are for round {self.task.round} of run"
                f" {self.task.token!r}, or for another model"
            )
        vector = self.notes.find_vector()
        if vector is None:
            reply = self.train(self.message, self.context)
            trained = compat.recorddict_to_fitres(reply.content, True).parameters.tensors
            vector = decode_one(trained[0])
            self.notes.keep_vector(vector)
        self.notes.require_same_sums(vector)
        masked = vector + keys.draw_mask(self.private(wire.OWN), len(vector))
        for other in this.others(self.own):
            mask = keys.draw_mask(
                keys.agree(self.private(wire.MASKING), this.key(other, wire.MASKING)), len(vector)
            )
            masked += mask if self.own > other else -mask
        return {"vector": pack(cast(keys.Steps, masked), self.secagg.width(self.drawn))}

    def agree(self) -> dict[str, Any]:
        """Tell every client that is left for whom this one would open the sum."""
        this, survivors = self.current, self.read_survivors()
        self.notes.note_said(this.digest, survivors)
        others = [other for other in survivors if other != self.own]
        tags = [self.tag(this, survivors, self.own, other) for other in others]
        return {"tags": b"".join(tags)}

    def open(self) -> dict[str, Any]:
        """Send one share per client: of its own mask if it is left, else of its masking key."""
        this, survivors = self.current, self.read_survivors()
        said = self.notes.read_said(this.digest)
        if said not in (None, survivors):
            raise WireError("the server leaves out other clients than the clients have agreed on")
        if survivors != this.clients:
            self.check_agreement(this, survivors, said)
        self.notes.note_opened(survivors)
        left = set(survivors)
        parts = split(self.state["received"], 2 * shamir.SHARE)
        shares = [
            part[: shamir.SHARE] if partition in left else part[shamir.SHARE :]
            for partition, part in zip(this.clients, parts, strict=True)
        ]
        return {"shares": b"".join(shares)}

    # What is required

    def check_clients(self, this: Try) -> None:
        """Require enough clients, of those that the round draws, with keys of their own."""
        drawn, clients, quorum = self.drawn, this.clients, self.quorum
        if not quorum <= len(clients) <= drawn:
            raise WireError(
                f"the server wants the sum of {len(clients)} clients; of the {drawn} of a round"
                f" there must be at least {quorum}"
            )
        order = draw_order(self.config.seed, self.task.round, self.config.clients)
        known = order if self.config.dp_params.secret_draw else order[:drawn]
        if strangers := set(clients) - set(known):
            raise WireError(
                f"client {min(strangers)} is not among the clients that are drawn for round"
                f" {self.task.round}"
            )
        if this.keys.get(self.own) != self.state["own"]:
            raise WireError("the server does not name this client, or names it with other keys")
        keys.check_public_keys(self.request["keys"], wire.PAIRS * len(clients))
        pins = Pins.of(self.context)
        signatures = cast(list[Any], self.request["signatures"])
        for partition, signature in zip(clients, signatures, strict=True):
            if partition != self.own:
                pins.check(self.task, partition, this.keys[partition], signature)

    def open_shares(self, this: Try) -> bytes:
        """Open the key shares that all others have sealed for this client, in this try."""
        sealed = self.request["sealed"]
        others = this.others(self.own)
        if not isinstance(sealed, bytes) or len(sealed) != wire.SEALED * len(others):
            raise WireError("the server passes on the key shares of other clients than the try's")
        shares = {self.own: self.state["shares"]}
        for other, part in zip(others, split(sealed, wire.SEALED), strict=True):
            context = self.context_of(this, other, self.own)
            content = keys.unseal(self.common_key(this, other), part, *context)
            if content is None or not all(map(shamir.is_share, split(content, shamir.SHARE))):
                raise RefusalError(
                    f"the key shares of client {other} are malformed, or were made for another"
                    " round, other clients or other keys",
                    names=[other],
                )
            shares[other] = content
        return b"".join(shares[partition] for partition in this.clients)

    def read_survivors(self) -> list[int]:
        """Read who is left; require a sum that hides everybody in it."""
        survivors = self.request["survivors"]
        if not wire.are_ascending(survivors) or not set(survivors) <= set(self.current.clients):
            raise WireError("the server's list of the remaining clients is malformed")
        quorum = self.quorum
        if len(survivors) < quorum:
            raise WireError(
                f"the server wants to open a sum of {len(survivors)} clients, and at least {quorum}"
                " are needed to hide one"
            )
        if self.own not in survivors:
            raise WireError("the server wants to open a sum without this client")
        self.notes.require_same_clients(survivors)
        return cast(list[int], survivors)

    def check_agreement(self, this: Try, survivors: list[int], said: list[int] | None) -> None:
        """Require that enough clients, this one among them, have said that these are left.

        If nobody is lost, this client sends no share of a masking key, and what it sends opens only
        the sum of all.
        """
        sources, tags = self.request["sources"], split(self.request["tags"], keys.TAG)
        if not wire.are_ascending(sources) or not set(sources) <= set(survivors) - {self.own}:
            raise WireError("the server's list of the clients that agree is malformed")
        agreeing = sum(
            compare_digest(tag, self.tag(this, survivors, source, self.own))
            for source, tag in zip(sources, tags, strict=True)
        )
        quorum = self.quorum
        if said is None or agreeing + 1 < quorum:
            raise WireError(
                f"{agreeing} other clients agree on who is left, and {quorum - 1} must before this"
                " client opens a sum without the rest"
            )

    # What it knows

    @cached_property
    def request(self) -> Mapping[str, Any]:
        """What the server asks for; Flower checks a message's records whenever one is taken."""
        records = self.message.content.config_records
        if wire.RECORD not in records:
            raise WireError(
                "the server asks for a plain update, but this run has secure aggregation (secagg);"
                " nothing was sent"
            )
        return records[wire.RECORD]

    @property
    def state(self) -> dict[str, Any]:
        """What this client keeps between the messages of a try."""
        records = self.context.state.config_records
        return cast(dict[str, Any], records.setdefault(wire.RECORD, ConfigRecord()))

    @cached_property
    def own(self) -> int:
        """This client's partition."""
        return int(self.context.node_config["partition-id"])

    @cached_property
    def task(self) -> SecureTask:
        """What is trained, as the server said when the try began."""
        return SecureTask.read(self.state)

    @cached_property
    def current(self) -> Try:
        """The try, as the server named it when keys were shared."""
        return Try.read(self.task, self.state, self.rules)

    @property
    def drawn(self) -> int:
        """How many clients are drawn for what is trained."""
        return self.task.count_drawn(self.config)

    @property
    def quorum(self) -> int:
        """How many clients its sum needs, and how many shares open a key."""
        return self.secagg.quorum(self.drawn)

    @property
    def rules(self) -> str:
        """What all clients of a try must have been told alike, lest some be less strict."""
        told = self.config
        return f"{told.secagg} {told.clients} {told.participation} {told.seed} {told.dp}"

    @property
    def notes(self) -> Notes:
        """What binds this client."""
        return self.notes_on(self.task)

    def notes_on(self, task: SecureTask) -> Notes:
        """What binds this client in some task."""
        data = str(self.context.node_config.get("data") or self.config.dataset)
        return Notes(self.memory, self.own, task, data)

    def private(self, pair: int) -> bytes:
        """One of this client's private keys."""
        return cast(bytes, self.state["private"])[pair * keys.KEY : (pair + 1) * keys.KEY]

    def common_key(self, this: Try, other: int) -> bytes:
        """Compute the key that seals and tags what goes between two clients."""
        return keys.agree(self.private(wire.SEALING), this.key(other, wire.SEALING))

    def context_of(self, this: Try, source: int, target: int) -> tuple[bytes, ...]:
        """Name the try and the direction to which sealed shares belong."""
        return b"shares", this.digest, write_number(source), write_number(target)

    def tag(self, this: Try, survivors: list[int], source: int, target: int) -> bytes:
        """Make the tag with which the source tells the target who is left in this try."""
        other = target if source == self.own else source
        said = (b"survivors", this.digest, write_number(source), write_number(target))
        return keys.make_tag(self.common_key(this, other), *said, wire.write_clients(survivors))
