"""Which sums a client has helped to open: one small file per round, beside its memory.

Training is deterministic, so a round that is repeated without one client would show that client's
update as the difference of two sums. A client therefore opens a round of a run once, and again only
for the same clients in the same seats: a repetition after a crash then gives the sum that the
server has seen before.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fedmirage.client.secagg.notes import write_note
from fedmirage.common.errors import FedmirageError
from fedmirage.common.secagg.circle import Circle


@dataclass(frozen=True)
class Opened:
    """The record of one client in one run."""

    folder: Path

    def check(self, circle: Circle, survivors: set[int] | None = None) -> None:
        """Refuse a round that was opened for other clients; survivors may not be known yet."""
        if (known := self._read(circle.round)) is None:
            return
        clients, remaining = known
        same = set(circle.partitions.values()) == set(clients)
        if survivors is not None:
            same = list(circle.partitions.values()) == clients
            same = same and circle.partitions_of(survivors) == remaining
        if not same:
            left = (
                ""
                if set(remaining) == set(clients)
                else f", of which {_list(remaining)} were left,"
            )
            raise FedmirageError(
                f"this client has opened round {circle.round} of this run with the clients"
                f" {_list(sorted(clients))}{left} and opens it for no others, because the"
                " difference of the two sums would show single updates; bring the same clients"
                " back, or start a new run with another seed (warm-start)"
            )

    def record(self, circle: Circle, survivors: set[int]) -> None:
        """Note what is about to be opened; it is on the disk when this returns."""
        self.check(circle, survivors)
        content = {
            "clients": list(circle.partitions.values()),
            "survivors": circle.partitions_of(survivors),
        }
        try:
            write_note(self._path(circle.round), content)
        except FileExistsError:
            self.check(circle, survivors)

    def _path(self, number: int) -> Path:
        return self.folder / f"round-{number:05d}.json"

    def _read(self, number: int) -> tuple[list[int], list[int]] | None:
        try:
            content = json.loads(self._path(number).read_text())
            return content["clients"], content["survivors"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise FedmirageError(
                f"this client's record of round {number} ({self._path(number).name}) is damaged, so"
                " it opens the round for nobody; start a new run with another seed (warm-start)"
            ) from None


def _list(partitions: list[int]) -> str:
    return " ".join(map(str, partitions))
