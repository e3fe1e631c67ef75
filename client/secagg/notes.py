"""What binds a client over messages, crashes and runs, written down before it is sent.

Training is deterministic, so two sums of one round over different clients would show somebody's
update as their difference. A client therefore opens a round of a run for one model and one list of
clients. In other runs it does not open it again if the same is trained: the model, the number of
the round, and the data, whatever the server calls the run. So there is a note in the folder of the
run, and one in a folder for all runs. The vector of a round is kept beside the memory of its run:
whoever asks for the round again gets the same one.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.common.drafts import remove_drafts, write_whole
from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.memory import client_folder
from fedmirage.common.secagg.keys import Steps, join
from fedmirage.common.secagg.protocol import RefusalError, SecureTask, write_number

FOLDER = "secagg"  # for all runs in the memory folder, and for one run beside a client's memory
DIGEST = 32  # bytes before a vector, which show that it is whole


@dataclass(frozen=True)
class Notes:
    """The notes of one client on one task."""

    memory: Path  # the node's memory folder
    partition: int
    task: SecureTask
    data: str  # what the client trains on

    def require_new(self) -> None:
        """Refuse a round that this client has helped to open in another run.

        The sums of a table may be opened in any run, but only for the same clients, and if they are
        the same: then they say nothing new.
        """
        for folder in (self._run_folder, self._opened.parent):  # a token that is none is refused
            remove_drafts(folder)
        known = read_note(self._opened)
        if known is not None and known["token"] != self.task.token and self.task.round:
            raise self._repeated(known)
        known = read_note(self._round)
        if known is not None and known.get("model") != self.task.model.hex():
            raise WireError(
                f"the server sends a second model for round {self.task.round}, which this client"
                " has opened with another"
            )

    def require_same_clients(self, clients: list[int]) -> None:
        """Refuse to open the round for other clients than those for which it was opened."""
        known = read_note(self._round) or read_note(self._opened)
        if known is not None and known["clients"] != clients:
            left = " ".join(map(str, known["clients"]))
            if not self.task.round:
                raise RefusalError(
                    f"this client has added up its table with the clients {left}, and does so with"
                    " no others, because the difference of the two sums would show single clients;"
                    " bring the same clients back, write mean and std into the schema, or let its"
                    f" owner allow it with `fedmirage supernode --forget {known['token']}`",
                    clients=known["clients"],
                )
            raise RefusalError(
                f"this client has opened round {self.task.round} of this run for the clients"
                f" {left} and opens it for no others, because the difference of the two sums would"
                " show single updates; bring the same clients back, or start a new run with another"
                " seed (warm-start)",
                clients=known["clients"],
            )

    def require_same_sums(self, vector: Steps) -> None:
        """Refuse to add up a table that has changed since its sums were opened in another run."""
        known = read_note(self._opened)
        if self.task.round or known is None or known.get("sums") == hash_vector(vector):
            return
        raise FedmirageError(
            "the rows of this node's table are not those that it added up in an earlier run, and"
            " the difference of the two sums would show those that changed; write mean and std into"
            " the schema, or let its owner allow it with `fedmirage supernode --forget"
            f" {known['token']}`"
        )

    def note_opened(self, clients: list[int]) -> None:
        """Note for whom the sum is about to be opened; refuse others than before."""
        content = {"token": self.task.token, "clients": clients, "model": self.task.model.hex()}
        if not self.task.round and (vector := self.find_vector()) is not None:
            content["sums"] = hash_vector(vector)
        write_note(self._round, content)
        write_note(self._opened, content)
        self.require_new()
        self.require_same_clients(clients)

    def note_said(self, digest: bytes, clients: list[int]) -> None:
        """Note who this client is about to say is left in a try; refuse to say something else."""
        path = self._said(digest)
        write_note(path, {"token": self.task.token, "clients": clients})
        if self.read_said(digest) != clients:
            raise WireError("this client has said already who is left in this try")
        remove_others(path, "said-*")

    def read_said(self, digest: bytes) -> list[int] | None:
        """Find out who this client has said is left in a try; None if it has said nothing."""
        return (read_note(self._said(digest)) or {}).get("clients")

    def find_vector(self) -> Steps | None:
        """Find the vector that this client has sent for this task in this run, if it has."""
        try:
            content = self._vector.read_bytes()
        except OSError:
            content = b""
        digest, numbers = content[:DIGEST], content[DIGEST:]
        if hashlib.sha256(numbers).digest() == digest:
            return np.frombuffer(numbers, "<i8").copy()
        if (known := read_note(self._opened)) is not None and self.task.round:
            raise self._repeated(known)
        return None

    def keep_vector(self, vector: Steps) -> None:
        """Keep a vector that is about to be sent, in place of those of earlier rounds."""
        numbers = vector.astype("<i8").tobytes()
        write_durably(self._vector, hashlib.sha256(numbers).digest() + numbers, os.replace)
        remove_others(self._vector, "vector-*")

    def _repeated(self, known: dict[str, Any]) -> FedmirageError:
        return FedmirageError(
            f"this node has already answered round {self.task.round} for this model; a second"
            " answer would reveal a difference; its owner may allow it with `fedmirage"
            f" supernode --forget {known['token']}`"
        )

    @property
    def _key(self) -> str:
        parts = (self.task.model, write_number(self.task.round), self.data.encode())
        return hashlib.sha256(join(*parts)).hexdigest()[:32]

    @property
    def _opened(self) -> Path:
        return self.memory / FOLDER / f"{self.partition:05d}" / f"{self._key}.json"

    @property
    def _run_folder(self) -> Path:
        return client_folder(self.memory, self.task.token, self.partition) / FOLDER

    @property
    def _round(self) -> Path:
        return self._run_folder / f"round-{self.task.round:05d}.json"

    def _said(self, digest: bytes) -> Path:
        return self._run_folder / f"said-{digest.hex()[:32]}.json"

    @property
    def _vector(self) -> Path:
        return self._run_folder / f"vector-{self._key}"


def hash_vector(vector: Steps) -> str:
    """Return the SHA-256 of a vector."""
    return hashlib.sha256(vector.astype("<i8").tobytes()).hexdigest()


def forget(memory: Path, token: str) -> int:
    """Forget which rounds of a run this node has answered; return how many there were."""
    notes = (memory / FOLDER).glob("*/*.json")
    found = [path for path in notes if (read_note(path) or {}).get("token") == token]
    for path in found:
        path.unlink()
    return len(found)


def read_note(path: Path) -> dict[str, Any] | None:
    """Read a note; one that cannot be read was never finished, and binds nobody."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(content, dict) and {"token", "clients"} <= set(content)
    return content if whole else None


def write_note(path: Path, content: dict[str, Any]) -> None:
    """Write a note, unless there is one; of two processes at a time one succeeds."""
    if path.exists() and read_note(path) is None:
        path.unlink(missing_ok=True)
    write_durably(path, json.dumps(content).encode(), os.link)


def write_durably(path: Path, content: bytes, place: Callable[[Path, Path], None]) -> None:
    """Write a file so that its name is on the disk, too."""
    try:
        write_whole(path, content, private=True, place=place)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:  # the caller reads what was written before
        return
    except OSError as error:
        raise FedmirageError(
            f"this node cannot write down what binds it ({error.strerror}), so it sends nothing;"
            " free some space on its disk"
        ) from None


def remove_others(path: Path, pattern: str) -> None:
    """Remove what is no longer needed beside a file."""
    for other in path.parent.glob(pattern):
        if other != path:
            other.unlink(missing_ok=True)
