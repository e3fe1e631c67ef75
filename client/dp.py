"""Differential privacy on the client.

The update is bounded, and under `local` also covered by noise, before anything is packed. Local
noise is drawn once per round: whoever asks for the round again gets the same reply, because a
second noise on the same update would be a second release.
"""

from dataclasses import dataclass
from pathlib import Path

from flwr.common import Scalar

from fedmirage.common.dp.bound import bound_update
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.dp.settings import DpOn, LocalDp
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.common.wire.metrics import CLIPPED
from fedmirage.common.wire.payload import SHARED, Arrays, Sections

REPLY = "reply.safetensors"


@dataclass(frozen=True)
class Reply:
    """What leaves a client in a round: what it sends, its weight, and its metrics."""

    sections: Sections
    examples: int
    metrics: dict[str, Scalar]


@dataclass(frozen=True)
class DpReply:
    """One reply of one client under differential privacy: bounded, counted, and never remade."""

    dp: DpOn
    folder: Path  # of the client in this run
    ledger: Path  # of all releases of this client
    token: str  # of the run
    number: int  # of the round

    def find_earlier(self) -> Reply | None:
        """Find the reply that this client gave in this round under `local`, to send it again."""
        if not isinstance(self.dp, LocalDp) or (found := self.read()) is None:
            return None
        self.write_down()  # a kill may have come between the reply's file and the ledger
        return found

    def protect(self, reply: Reply, broadcast: Arrays) -> Reply:
        """Return what may leave this client; it is kept and counted before it does."""
        local = isinstance(self.dp, LocalDp)
        noise = self.dp.noise if isinstance(self.dp, LocalDp) else 0.0
        shared, clipped = bound_update(reply.sections[SHARED], broadcast, self.dp.clip, noise)
        sections = {**reply.sections, SHARED: shared}
        if local:  # beside the update, the server learns only whether it trained
            protected = Reply(sections, int(reply.examples > 0), {})
            self.keep(protected)
        else:
            protected = Reply(sections, reply.examples, {**reply.metrics, CLIPPED: int(clipped)})
        self.write_down()
        return protected

    def write_down(self) -> None:
        """Count the reply of a round before it leaves.

        Under `central` the server adds noise of its own each time it is asked to, so every reply
        counts. Under `local` the same reply is sent again, and counts once.
        """
        ledger = Ledger(self.ledger)
        entry = {"run": self.token, "round": self.number, "multiplier": self.dp.multiplier}
        if not (isinstance(self.dp, LocalDp) and entry in ledger.entries):
            ledger.add(**entry)

    def keep(self, reply: Reply) -> None:
        """Write the reply of a round; it replaces that of the round before."""
        arrays = {f"{index:04d}": array for index, array in enumerate(reply.sections[SHARED])}
        facts = {"round": self.number, "examples": reply.examples}
        write_arrays(self.folder / REPLY, arrays, facts, private=True)

    def read(self) -> Reply | None:
        """Read the reply that was kept of this round; None if there is none.

        A round before the last one that was answered is refused: its reply is gone, and a new one
        would carry new noise.
        """
        if not (self.folder / REPLY).exists():
            return None
        try:
            arrays, facts = read_arrays(self.folder / REPLY)
        except DataError:
            raise FedmirageError(
                "the last reply of this node cannot be read any more, and a new one would carry new"
                " noise; it takes no part in this run"
            ) from None
        if facts["round"] > self.number:
            raise FedmirageError(
                f"this node has answered round {facts['round']} already; an answer to round"
                f" {self.number} would carry new noise, and is refused"
            )
        if facts["round"] < self.number:
            return None
        return Reply({SHARED: [arrays[name] for name in sorted(arrays)]}, facts["examples"], {})
