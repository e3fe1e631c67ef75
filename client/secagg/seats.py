"""How a client takes part in drawing the seats of a secure round (common/secagg/circle.py)."""

from typing import cast

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Stage

from fedmirage.client.secagg.view import View
from fedmirage.common.errors import WireError
from fedmirage.common.secagg.agreement import LOT, LOTS, NODES, TAGS
from fedmirage.common.secagg.circle import CIRCLE, seal_lot


class Seats(View):
    """The part of a message that is about lots and seats."""

    def draw(self) -> Message:
        """Show this client's lot, now that everybody is bound to theirs."""
        known = self.context.state.config_records.get(LOTS, ConfigRecord())
        if self.flower_state.current_stage != Stage.SETUP or set(known) != {LOT}:
            raise WireError("the clients draw lots for their seats once, after the set-up")
        sealed, lot = self.read_tags(LOTS), cast(bytes, known[LOT])
        if set(sealed) != set(self.circle.partitions) or sealed[self.node] != seal_lot(lot):
            raise WireError("the server's list of the clients' lots is not that of this try")
        known[NODES], known[TAGS] = list(sealed), list(sealed.values())
        answer = ConfigRecord({LOT: lot})
        return Message(RecordDict({RECORD_KEY_CONFIGS: answer}), reply_to=self.message)

    def take_seats(self) -> None:
        """Put the clients in the order that follows from all lots, if they are the sealed ones."""
        known = self.context.state.config_records[LOTS]
        lots, nodes = self.read_tags(LOTS), cast(list[int], known.get(NODES, []))
        sealed = dict(zip(nodes, cast(list[bytes], known.get(TAGS, [])), strict=True))
        if not sealed or {node: seal_lot(lot) for node, lot in lots.items()} != sealed:
            raise WireError("the lots that the server passes on are not those that were sealed")
        self.circle = self.circle.seat(lots)
        self.lots(self.circle).keep(self.circle, lots[self.node])
        self.context.state.config_records[CIRCLE] = self.circle.write()
