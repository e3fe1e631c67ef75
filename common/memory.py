"""What a client remembers between rounds, on its own disk, keyed "<method>.<thing>".

Every round in which a client remembers something leaves one immutable file. A round reads the
newest file of an *earlier* round, so that a round that is retried, or repeated after a crash,
starts from the same state as the first time. If a client's reply came too late to count, what it
remembered of that round is forgotten, so that its state and the server's stay in step. Nothing is
kept in Flower's own `Context.state`: it lives in RAM, dies with the node, and travels with every
message of a simulation.
"""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context

from fedmirage.common.drafts import remove_drafts
from fedmirage.common.errors import DataError, WireError
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.common.wire.payload import Arrays

LOCAL_MODEL = "local.model"  # the client's last local model, where a run keeps it
LOCAL_EXAMPLES = "local.examples"
log = logging.getLogger("fedmirage")
TOKEN = re.compile("[0-9a-f]{16}")  # how the server names a run
VERSION = re.compile(r"round-(\d+)\.safetensors")


class Memory:
    """One client's memory, opened for one round.

    `keep_all` keeps the files of all rounds instead of the last two. `since` is the last round in
    which this client's reply counted; None means the last one that it finished.
    """

    def __init__(
        self,
        folder: Path,
        round_number: int,
        keep_all: bool = False,
        parent: Path | None = None,
        parent_round: int = 0,
        since: int | None = None,
    ) -> None:
        self.folder, self.round, self.keep_all = folder, round_number, keep_all
        before = round_number if since is None else since + 1
        remove_drafts(folder)
        # `fell_back`: whether a newer file was damaged, and what it held is forgotten.
        self.source, self._stored, self.fell_back = read_newest(folder, before)
        # Whether this client took part before, but nothing of that is left here; it means something
        # only where the client remembers something of every round.
        self.lost = bool(since) and self.source is None
        self.inherited = False  # whether what is read here was written by another run
        # A warm start begins with the memory of the run that it starts from.
        if self.source is None and parent is not None:
            self.source, self._stored, damaged = read_newest(parent, parent_round + 1)
            self.fell_back = self.fell_back or damaged
            self.inherited = self.source is not None
        self._changes: dict[str, Arrays] = {}

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> Arrays | None:
        """Return the arrays under a key, or None on a first visit."""
        return self._changes[key] if key in self._changes else self._stored.get(key)

    def put(self, key: str, arrays: Arrays) -> None:
        """Remember arrays under a key; `close` writes them."""
        self._changes[key] = [np.array(array, copy=True, order="C") for array in arrays]

    def forget(self, prefix: str) -> None:
        """Drop everything under keys that begin like this."""
        for entries in (self._stored, self._changes):
            for key in [key for key in entries if key.startswith(prefix)]:
                del entries[key]

    @property
    def age(self) -> int | None:
        """The number of rounds since this client last took part; None on a first visit."""
        return None if self.source is None else self.round - round_of(self.source)

    def close(self) -> None:
        """Write this round's file atomically, and delete those that no repeated round can need.

        Files of later rounds stay: a client that was given up, and answers after all, is not the
        last to write.
        Nothing is written in a round in which there was nothing to remember.
        """
        if not self._changes:
            return
        entries = {**self._stored, **self._changes}
        flat = {
            f"{key}/{index:04d}": array
            for key, arrays in entries.items()
            for index, array in enumerate(arrays)
        }
        path = self.folder / f"round-{self.round:05d}.safetensors"
        write_arrays(path, flat, {"round": self.round}, private=True)
        if not self.keep_all:
            for old in versions(self.folder):
                if round_of(old) < self.round and old != self.source:
                    old.unlink(missing_ok=True)


def versions(folder: Path) -> list[Path]:
    """List all files of one client's memory, oldest first."""
    return sorted(
        path for path in folder.glob("round-*.safetensors") if VERSION.fullmatch(path.name)
    )


def read_newest(folder: Path, before: int) -> tuple[Path | None, dict[str, Arrays], bool]:
    """Read the newest file of a round before the given one; a damaged file gives way to an older.

    What the client did in the round of a damaged file is then forgotten; the last value says so.
    """
    damaged = False
    for path in reversed([path for path in versions(folder) if round_of(path) < before]):
        try:
            arrays, _ = read_arrays(path)
        except DataError as error:
            log.warning("a client forgets a round: %s", error)
            damaged = True
            continue
        grouped: dict[str, Arrays] = {}
        for name in sorted(arrays):
            grouped.setdefault(name.rpartition("/")[0], []).append(arrays[name])
        return path, grouped, damaged
    return None, {}, damaged


def round_of(path: Path) -> int:
    """Return the round of a file of a client's memory."""
    match = VERSION.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def local_models(folder: Path, round_number: int) -> list[tuple[int, Arrays]]:
    """Read (examples, weights) of every client's last local model up to a round.

    They come in partition order. Only a host that has the memory of all clients can do this.
    """
    found: list[tuple[int, Arrays]] = []
    for client in sorted(folder.glob("client-*")):
        memory = Memory(client, round_number + 1)
        arrays, examples = memory.get(LOCAL_MODEL), memory.get(LOCAL_EXAMPLES)
        if arrays is not None and examples is not None:
            found.append((int(examples[0][0]), arrays))
    return found


def memory_folder(context: Context, memory: Path | None = None) -> Path:
    """Find the folder of all memories: the given one, the node's own setting, or Flower's home."""
    return memory or find_memory(context.node_config)


def find_memory(node_config: Mapping[str, Any]) -> Path:
    """Find where a node with this configuration keeps its files."""
    return Path(str(node_config.get("memory") or flower_home() / "fedmirage" / "memory"))


def client_folder(memory: Path, token: str, partition: int) -> Path:
    """Find what one client remembers of one run; the server may not name other places."""
    if not TOKEN.fullmatch(token):
        raise WireError(f"the server names the run {token!r}, and not by 16 digits 0-9a-f")
    return memory / token / f"client-{partition:05d}"


def flower_home() -> Path:
    """The folder where Flower keeps its files on this node."""
    return Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr")
