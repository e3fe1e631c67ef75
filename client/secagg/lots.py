"""The lots from which the seats of a secure round are drawn, and what a client remembers of them.

A client draws a new lot in every try, so that nobody can know the seats beforehand. Once it has
sent key shares, it is bound to the seats: if the same clients try the same round again, it draws
the same lot, and takes no other seats. Otherwise a server could open one sum with the neighbours
that one drawing gives, and a sum without one client with those of another.
"""

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmirage.client.secagg.notes import write_note
from fedmirage.common.errors import WireError
from fedmirage.common.secagg.circle import Circle

LENGTH = 32  # bytes of a lot


@dataclass(frozen=True)
class Lots:
    """What one client has drawn in one run: a small file per round and list of clients."""

    folder: Path

    def draw(self, gathered: Circle) -> bytes:
        """Draw this client's lot for a try, or the one that it is bound to."""
        known = self._read(gathered)
        return bytes.fromhex(known["lot"]) if known else secrets.token_bytes(LENGTH)

    def keep(self, seated: Circle, lot: bytes) -> None:
        """Note the seats before key shares are sent; refuse others than those of an earlier try.

        A note that cannot be read was never finished, so that no shares were sent after it.
        """
        seats = list(seated.partitions.values())
        known = self._read(seated)
        if known is None:
            self._path(seated).unlink(missing_ok=True)
            write_note(self._path(seated), {"lot": lot.hex(), "seats": seats})
        elif known["seats"] != seats:
            raise WireError(
                f"the clients of round {seated.round} have drawn other seats than in an earlier try"
                " with the same clients; some client has forgotten its lot, or has been told to"
            )

    def _path(self, circle: Circle) -> Path:
        clients = json.dumps(circle.partitions_of(set(circle.partitions)))
        name = hashlib.sha256(clients.encode()).hexdigest()[:16]
        return self.folder / f"seats-{circle.round:05d}-{name}.json"

    def _read(self, circle: Circle) -> dict[str, Any] | None:
        try:
            known: dict[str, Any] = json.loads(self._path(circle).read_text())
            return known if {"lot", "seats"} == set(known) else None
        except (FileNotFoundError, ValueError, TypeError):  # bound to nothing; `keep` says why
            return None
