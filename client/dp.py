"""Differential privacy on the client.

The update is bounded, and under `local` also covered by noise, before anything is packed. Local
noise is drawn once per round: whoever asks for the round again gets the same reply, because a
second noise on the same update would be a second release.
"""

from dataclasses import dataclass
from pathlib import Path

from flwr.common import Scalar

from fedmirage.client.round import LocalRound
from fedmirage.common.dp.bound import bound_update
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.dp.settings import DpOn, LocalDp
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.wire.figures import CLIPPED
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.common.wire.payload import SHARED, Arrays, Sections

REPLY = "reply.safetensors"


@dataclass(frozen=True)
class Reply:
    """What leaves a client in a round under `local`: its noised update, and whether it trained."""

    shared: Arrays
    examples: int  # 1 or 0


def protect(
    dp: DpOn,
    local: LocalRound,
    sections: Sections,
    examples: int,
    metrics: dict[str, Scalar],
) -> tuple[Sections, int, dict[str, Scalar]]:
    """Return what may leave this client: its sections, its number of examples and its figures."""
    noise = dp.noise if isinstance(dp, LocalDp) else 0.0
    shared, clipped = bound_update(sections[SHARED], local.broadcast, dp.clip, noise)
    sent = {**sections, SHARED: shared}
    if isinstance(dp, LocalDp):  # beside the update, the server learns only whether it trained
        return sent, int(examples > 0), {}
    return sent, examples, {**metrics, CLIPPED: int(clipped)}


def write_down(dp: DpOn, ledger: Ledger, token: str, number: int) -> None:
    """Count the reply of a round before it leaves.

    Under `central` the server adds noise of its own each time it is asked to, so every reply
    counts. Under `local` the same reply is sent again, and counts once.
    """
    entry = {"run": token, "round": number, "multiplier": dp.multiplier}
    if not (isinstance(dp, LocalDp) and entry in ledger.entries):
        ledger.add(**entry)


def keep_reply(folder: Path, number: int, reply: Reply) -> None:
    """Write the reply of a round; it replaces that of the round before."""
    arrays = {f"{index:04d}": array for index, array in enumerate(reply.shared)}
    facts = {"round": number, "examples": reply.examples}
    write_arrays(folder / REPLY, arrays, facts, private=True)


def find_reply(folder: Path, number: int) -> Reply | None:
    """Find the reply that this client gave in this round; None if it gave none.

    A round before the last one that was answered is refused: its reply is gone, and a new one would
    carry new noise.
    """
    if not (folder / REPLY).exists():
        return None
    try:
        arrays, facts = read_arrays(folder / REPLY)
    except DataError:
        raise FedmirageError(
            "the last reply of this node cannot be read any more, and a new one would carry new"
            " noise; it takes no part in this run"
        ) from None
    if facts["round"] > number:
        raise FedmirageError(
            f"this node has answered round {facts['round']} already; an answer to round {number}"
            " would carry new noise, and is refused"
        )
    if facts["round"] < number:
        return None
    return Reply([arrays[name] for name in sorted(arrays)], facts["examples"])
