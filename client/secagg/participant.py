"""What a client checks in each message of a secure round, and what it adds to Flower's answer.

The server is trusted neither with a single update nor with telling the truth: whatever it says must
follow from the run's configuration, from what it said before, or from what other clients have said
with a tag that the server cannot make.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.client.mod.secure_aggregation.secaggplus_mod import check_stage
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.secure_aggregation.secaggplus_constants import (
    RECORD_KEY_CONFIGS,
    Key,
    Stage,
)

from fedmirage.client.secagg.checks import Checks
from fedmirage.client.secagg.pins import Pins
from fedmirage.client.secagg.seats import Seats
from fedmirage.client.secagg.settings import check_setup
from fedmirage.client.secagg.view import write_survivors
from fedmirage.common.errors import WireError
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
from fedmirage.common.secagg.circle import CIRCLE, Circle, are_distinct, seal_lot
from fedmirage.common.secagg.keys import TAG, is_tag, read_public_key
from fedmirage.common.secagg.masks import GENERATOR, MASKS
from fedmirage.common.secagg.replacements import ON_THE_CLIENT, install

# Installed here, and not in mod.py, because Flower's simulation pickles the ClientApp: functions
# inside those of mod.py travel by value, so that Ray's processes import this module, but not mod.
install(import_module(secaggplus_mod.__module__), ON_THE_CLIENT)
INSTRUCTIONS = "fitins.config"  # Flower's record of what a round's training needs


@dataclass
class Participant(Seats, Checks):
    """One client's side of one message."""

    train: ClientAppCallable

    def answer(self) -> Message:
        """Check the request, and answer it with Flower's help; raise a sentence to refuse."""
        if RECORD_KEY_CONFIGS not in self.message.content.config_records:
            raise WireError(
                "the server asks for a plain update, but this run has secure aggregation (secagg);"
                " nothing was sent"
            )
        stage = str(self.request.get(Key.STAGE))
        if stage not in (DRAW, AGREE):
            check_stage(self.flower_state.current_stage, self.request)
        stages: dict[str, Callable[[], Message]] = {
            Stage.SETUP: self.set_up,
            DRAW: self.draw,
            Stage.SHARE_KEYS: self.share_keys,
            Stage.COLLECT_MASKED_VECTORS: self.send_vector,
            AGREE: self.agree,
            Stage.UNMASK: self.open_sum,
        }
        return stages[stage]()

    # The stages

    def set_up(self) -> Message:
        """Take the round's clients down, and send fresh public keys."""
        check_setup(self.request, self.secagg, self.config.drawn)
        record = self.message.content.config_records[CIRCLE]
        circle = Circle.read(record)
        self.check_circle(circle)
        self.opened(circle).check(circle)
        reply = self.ask_flower()
        self.context.state.config_records[CIRCLE] = circle.write()
        for name in (AGREEMENT, LOTS):
            self.context.state.config_records.pop(name, None)
        answer = reply.content.config_records[RECORD_KEY_CONFIGS]
        answer[MASKS] = GENERATOR
        if self.draws_lots:
            lot = self.lots(circle).draw(circle)
            self.context.state.config_records[LOTS] = ConfigRecord({LOT: lot})
            answer[SEALED_LOT] = seal_lot(lot)
        keys = [cast(bytes, answer[key]) for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)]
        if (signature := Pins.of(self.context).sign(circle, self.node, keys)) is not None:
            signed = ConfigRecord({NODES: [self.node], TAGS: [signature]})
            reply.content.config_records[SIGNATURES] = signed
        return reply

    def share_keys(self) -> Message:
        """Send every neighbour its shares of this client's keys, with a tag."""
        gathered = self.circle
        if self.draws_lots:
            self.take_seats()
        names = [name for name in self.request if name != Key.STAGE]
        if len(names) != self.plan.shares or set(map(int, names)) != self.neighbours:
            raise WireError(
                "the server names other neighbours of this client than those that follow from the"
                " clients and the lots that they drew"
            )
        keys = [read_public_key(key) for name in names for key in cast(Any, self.request[name])]
        if len(set(keys)) != 2 * len(names):
            raise WireError("some of the public keys that the server sent are the same")
        signatures, pins = self.read_tags(SIGNATURES), Pins.of(self.context)
        for node in self.neighbours - {self.node}:
            theirs = cast(list[bytes], self.request[str(node)])
            pins.check(gathered, node, theirs, signatures.get(node))
        reply = self.ask_flower()
        answer = reply.content.config_records[RECORD_KEY_CONFIGS]
        targets = cast(list[int], answer[Key.DESTINATION_LIST])
        sealed = cast(list[bytes], answer[Key.CIPHERTEXT_LIST])
        answer[Key.CIPHERTEXT_LIST] = [
            part + self.tag_shares(self.node, target, part)
            for target, part in zip(targets, sealed, strict=True)
        ]
        return reply

    def send_vector(self) -> Message:
        """Train, and send the masked vector; all neighbours must have sent their key shares."""
        sources, sealed = (
            cast(list[Any], self.request[key]) for key in (Key.SOURCE_LIST, Key.CIPHERTEXT_LIST)
        )
        if not are_distinct(sources) or set(sources) != self.neighbours - {self.node}:
            raise WireError(
                "the server passes on the key shares of other clients than this one's neighbours"
            )
        for source, part in zip(sources, sealed, strict=True):
            expected = self.tag_shares(source, self.node, part[:-TAG])
            if not is_tag(part[-TAG:], expected):
                raise WireError(
                    f"the key shares of client {self.circle.partitions[source]} were made for"
                    " another round, other clients or other keys"
                )
        self.request[Key.CIPHERTEXT_LIST] = [part[:-TAG] for part in sealed]
        told = self.message.content.config_records[INSTRUCTIONS]
        if (told.get("token"), told.get("round")) != (self.circle.token, self.circle.round):
            raise WireError(
                f"the server asks to train round {told.get('round')!r} of run"
                f" {told.get('token')!r}, but the keys are for round {self.circle.round} of run"
                f" {self.circle.token!r}"
            )
        return self.ask_flower()

    def agree(self) -> Message:
        """Tell the remaining neighbours for which clients this one would open the sum."""
        if self.flower_state.current_stage != Stage.COLLECT_MASKED_VECTORS or self.agreed:
            raise WireError("the clients agree on who is left once, after they have trained")
        told = self.request[SURVIVORS]
        if not are_distinct(told):
            raise WireError("the server's list of the remaining clients is malformed")
        survivors = set(cast(list[int], told))
        self.check_survivors(survivors)
        targets = sorted(self.neighbours & survivors - {self.node})
        left = write_survivors(survivors)
        tags = [self.tag_survivors(self.node, target, left) for target in targets]
        record = ConfigRecord({SURVIVORS: sorted(survivors)})
        self.context.state.config_records[AGREEMENT] = record
        answer = ConfigRecord({NODES: targets, TAGS: tags})
        return Message(RecordDict({RECORD_KEY_CONFIGS: answer}), reply_to=self.message)

    def open_sum(self) -> Message:
        """Send one share per neighbour: of its private mask if it is left, else of its key."""
        active, dead = (
            cast(list[Any], self.request[key])
            for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        if set(active) & set(dead):
            raise WireError(
                "the server asks for both keys of a client, which would open its update; nothing"
                " was sent"
            )
        if not are_distinct(active + dead) or set(active + dead) != self.neighbours:
            raise WireError(
                "the server asks for the keys of other clients than this one's neighbours"
            )
        survivors = self.agreed or set(active)
        if survivors & self.neighbours != set(active):
            raise WireError("the server leaves out other clients than the clients have agreed on")
        self.check_survivors(survivors)
        self.check_agreement(survivors)
        self.opened(self.circle).record(self.circle, survivors)
        return self.ask_flower()

    def ask_flower(self) -> Message:
        """Let Flower's mod answer the request, and change what it keeps."""
        self.__dict__.pop("flower_state", None)
        return secaggplus_mod(self.message, self.context, self.train)
