"""The server's side of one try of a secure round: five exchanges, one after the other.

    advertise   collects the clients' public keys; whoever answers is in the try
    share       passes them on, and collects key shares that the clients seal for each other
    mask        passes these on, and collects the masked vectors, for which the clients train
    agree       only if somebody was lost since: collects who the clients say is left
    open        passes that on, collects the shares that open the masks, and takes the masks away

Differs from Bonawitz et al.: a client that is lost in the second exchange ends the try, because
everything after it is bound to the list of clients. A client that is lost later is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.compat.common import recorddict_compat as compat

from fedmirage.common.errors import WireError
from fedmirage.common.secagg import keys, shamir
from fedmirage.common.secagg import protocol as wire
from fedmirage.common.secagg.keys import Steps, reduce, split, unpack
from fedmirage.common.secagg.protocol import SecureTask, Try
from fedmirage.server.messages.carrier import Carrier
from fedmirage.server.messages.replies import clean

Answers = dict[int, Mapping[str, Any]]  # by partition
Check = Callable[[Mapping[str, Any]], Any]  # raises a sentence if an answer is malformed
Parts = dict[int, dict[int, bytes]]  # what clients have for each other


@dataclass
class Protocol:
    """One try; its exchanges raise RoundFailed if too few clients are left."""

    task: SecureTask
    quorum: int  # how many clients a try and its sum need, and how many shares open a key
    size: int  # numbers of a vector
    width: int  # bytes of a masked number
    carrier: Carrier
    # whom clients blame -> who does
    accused: dict[int, set[int]] = field(default_factory=dict)
    # for which clients somebody has opened the round in an earlier try -> who says so
    bound: dict[tuple[int, ...], set[int]] = field(default_factory=dict)
    stage: str = wire.ADVERTISE  # how far the try has come
    left: list[int] = field(default_factory=list)  # the clients whose vectors are in the sum

    def run(self, least: int) -> Steps:
        """Do all exchanges; return the sum of at least so many vectors.

        It is what the masks leave: whether clients can have sent it is for others to check.
        """
        this = self.advertise()
        vectors = self.mask(this, self.share(this), max(least, self.quorum))
        self.left = sorted(vectors)
        shares = self.open(this, self.agree() if self.left != this.clients else {})
        sums = -self.find_masks(this, shares)
        for vector in vectors.values():
            sums += unpack(vector, self.width)
        return reduce(sums, self.width)

    # The exchanges

    def advertise(self) -> Try:
        """Collect public keys; whoever sends usable ones is in the try."""
        everybody = [proxy.partition for proxy, _ in self.carrier.asked]
        request = {"version": wire.VERSION, **self.task.write()}
        answers = self.ask(wire.ADVERTISE, dict.fromkeys(everybody, request), check_keys)
        owned = {
            partition: split(answer["keys"], keys.KEY) for partition, answer in answers.items()
        }
        seen = [key for own in owned.values() for key in own]
        for partition in [one for one, own in owned.items() if any(seen.count(k) > 1 for k in own)]:
            self.carrier.lost[partition] = "its public keys are also those of another client"
            del answers[partition]
        self.require(len(answers), self.quorum, "exchanging keys")
        self.signatures = [answers[partition]["signature"] for partition in sorted(answers)]
        return Try(self.task, {one: answers[one]["keys"] for one in sorted(answers)})

    def share(self, this: Try) -> Parts:
        """Collect what the clients seal for each other, by receiver and sender."""
        request = {**this.write(), "signatures": self.signatures}
        check = require_bytes("sealed", wire.SEALED * (len(this.clients) - 1), "key shares")
        answers = self.ask(wire.SHARE, dict.fromkeys(this.clients, request), check)
        self.require(len(answers), len(this.clients), "sharing keys")
        return turn(this.clients, answers, "sealed", wire.SEALED)

    def mask(self, this: Try, sealed: Parts, least: int) -> dict[int, bytes]:
        """Let the clients train; collect the masked vectors of those that are left."""
        requests = {
            target: {"sealed": b"".join(parts[source] for source in this.others(target))}
            for target, parts in sealed.items()
        }
        check = require_bytes("vector", self.width * self.size, "masked numbers")
        answers = self.ask(wire.MASK, requests, check)
        self.require(len(answers), least, "training")
        return {one: answer["vector"] for one, answer in answers.items()}

    def agree(self) -> Parts:
        """Collect the tags with which clients say who is left, by receiver and sender."""
        check = require_bytes("tags", keys.TAG * (len(self.left) - 1), "tags")
        request = {"survivors": self.left}
        answers = self.ask(wire.AGREE, dict.fromkeys(self.left, request), check)
        self.require(len(answers), self.quorum, "agreeing on who is left")
        tags = turn(self.left, answers, "tags", keys.TAG)
        return {partition: tags[partition] for partition in answers}

    def open(self, this: Try, tags: Parts) -> Parts:
        """Collect the shares that open the masks, by owner and by the holder's point."""
        requests = {}
        for partition in tags or self.left:
            told = dict(sorted(tags.get(partition, {}).items()))
            said = {"sources": [*told], "tags": b"".join(told.values())}
            requests[partition] = {"survivors": self.left, **said}
        size = shamir.SHARE * len(this.clients)
        answers = self.ask(wire.OPEN, requests, require_bytes("shares", size, "key shares"))
        self.require(len(answers), self.quorum, "opening the sum")
        shares: Parts = {owner: {} for owner in this.clients}
        for holder, answer in answers.items():
            for owner, share in zip(
                this.clients, split(answer["shares"], shamir.SHARE), strict=True
            ):
                if shamir.is_share(share):
                    shares[owner][this.points[holder]] = share
        return shares

    # What the shares give

    def find_masks(self, this: Try, shares: Parts) -> Steps:
        """Compute what the masks add to the sum: own ones, and those in common with lost clients.

        A key that was recovered must be the one whose public key the client has sent.
        """
        masks, doubted = np.zeros(self.size, np.int64), set[int]()
        for owner in this.clients:
            pair = wire.OWN if owner in self.left else wire.MASKING
            public = this.key(owner, pair)
            secret = shamir.recover_secret(shares[owner], self.quorum, public, doubted)
            if secret is None:
                raise self.carrier.failed(
                    f"the key shares of client {owner} do not give the key whose public key it has"
                    " sent."
                )
            if pair == wire.OWN:
                masks += keys.draw_mask(secret, self.size)
                continue
            for other in self.left:
                common = keys.agree(secret, this.key(other, wire.MASKING))
                mask = keys.draw_mask(common, self.size)
                masks += mask if other > owner else -mask
        for point in doubted:
            self.carrier.lost[this.clients[point - 1]] = "it has sent false key shares"
        return masks

    # Messages

    def ask(self, stage: str, requests: Mapping[int, dict[str, Any]], check: Check) -> Answers:
        """Send the requests of an exchange, and return the usable answers."""
        self.stage, group = stage, str(self.task.round)
        messages = []
        for proxy, ins in self.carrier.asked:
            if proxy.partition not in requests:
                continue
            train = stage == wire.MASK
            content = compat.fitins_to_recorddict(ins, True) if train else RecordDict()
            content[wire.RECORD] = ConfigRecord({"stage": stage, **requests[proxy.partition]})
            messages.append(Message(content, proxy.node_id, MessageType.TRAIN, group_id=group))
        replies = self.carrier.exchange(
            messages, lambda partition, content: check(self.read(partition, content))
        )
        return {one: replies[one].content.config_records[wire.RECORD] for one in replies}

    def read(self, partition: int, content: RecordDict) -> Mapping[str, Any]:
        """Read an answer; a refusal is raised, and what it tells is noted."""
        records = content.config_records
        if wire.REFUSAL in records:
            told = records[wire.REFUSAL]
            names, clients = (cast(list[int], told.get(key)) for key in ("names", "clients"))
            if wire.are_ascending(names) and len(names) == 1:
                self.accused.setdefault(names[0], set()).add(partition)
            if wire.are_ascending(clients) and self.could_open(clients, partition):
                self.bound.setdefault(tuple(clients), set()).add(partition)
            raise WireError(clean(told.get("reason")))
        if wire.RECORD not in records:
            raise WireError("it sent a plain reply; does it run the same version, with secagg?")
        return records[wire.RECORD]

    def could_open(self, clients: list[int], partition: int) -> bool:
        """Whether a try with these clients, for which one says it has opened, is possible now."""
        here = {proxy.partition for proxy, _ in self.carrier.asked}
        return partition in clients and len(clients) >= self.quorum and here.issuperset(clients)

    def require(self, found: int, needed: int, what: str) -> None:
        """End the try if too few clients are left."""
        if found < needed:
            raise self.carrier.failed(
                f"secure aggregation was left with {found} of {len(self.carrier.asked)} clients"
                f" while {what}, {needed} are needed."
            )


def check_keys(answer: Mapping[str, Any]) -> None:
    """Check a client's public keys."""
    if answer.get("version") != wire.VERSION:
        raise WireError(f"it does not speak {wire.VERSION!r}; run the same version on both sides")
    keys.check_public_keys(answer.get("keys"), wire.PAIRS)
    if not isinstance(answer.get("signature"), bytes):
        raise WireError("its message holds no signature, not even an empty one")


def require_bytes(name: str, size: int, what: str) -> Check:
    """Make a check that an answer holds so many bytes under a name."""

    def check(answer: Mapping[str, Any]) -> None:
        content = answer.get(name)
        if not isinstance(content, bytes) or len(content) != size:
            held = f"{len(content)} bytes" if isinstance(content, bytes) else "nothing"
            raise WireError(f"its {what} are malformed: {held} instead of {size} bytes")

    return check


def turn(clients: list[int], answers: Answers, name: str, size: int) -> Parts:
    """Sort what each client has sent for all others by the receiver, then by the sender."""
    received: Parts = {target: {} for target in clients}
    for source, answer in answers.items():
        others = [target for target in clients if target != source]
        for target, part in zip(others, split(answer[name], size), strict=True):
            received[target][source] = part
    return received
