"""A whole run on a host of a Ray cluster: an actor starts it, and the command fetches its files.

The run has a folder of its own there, which is removed at its end. Nothing of it depends on a
folder that hosts share, and a host that dies costs the rounds since the command last looked.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from fedmirage.common.drafts import DRAFT, write_whole
from fedmirage.common.errors import FedmirageError
from fedmirage.launch import attend
from fedmirage.runtimes.cluster.hosts import Requirements, find_faults, own_name
from fedmirage.runtimes.processes import Processes
from fedmirage.server.record import checkpoint
from fedmirage.server.record.folder import LOCK

RUN, PARENT = "run", "parent"  # of the folder on the host: the run, and the one that it begins from
TRIES = 5  # to read a folder while no round ends
TEXTS = (".json", ".jsonl", ".txt")  # files that may name their folder
GROWING = ".jsonl"  # files of which only what is new travels


class Piece(NamedTuple):
    """A file of a run, or what was appended to it; None if it was removed."""

    name: str
    content: bytes | None
    appended: bool = False


@dataclass
class Sent:
    """What the other side has of a file."""

    stamp: tuple[int, int, int]
    size: int
    digest: str


@dataclass
class Sender:
    """Reads what is new in the folder of a run, so that a run can continue from what was read."""

    folder: Path
    sent: dict[str, Sent] = field(default_factory=dict)

    def read(self) -> list[Piece]:
        """Return what has changed since the last time; nothing while rounds end too quickly.

        A checkpoint needs the memories of its round, so no round may end meanwhile.
        """
        for _ in range(TRIES):
            before = self._stamp_checkpoint()
            with contextlib.suppress(FileNotFoundError):
                pieces, sent = self._read_all()
                if self._stamp_checkpoint() == before:
                    self.sent = sent
                    return pieces
        return []

    def _stamp_checkpoint(self) -> tuple[int, int, int]:
        path = self.folder / checkpoint.FILE
        return stamp(path) if path.exists() else (0, 0, 0)

    def _read_all(self) -> tuple[list[Piece], dict[str, Sent]]:
        pieces, sent = [], {}
        for path in list_run(self.folder):
            name, now = path.relative_to(self.folder).as_posix(), stamp(path)
            known = self.sent.get(name)
            if known is not None and known.stamp == now:
                sent[name] = known
                continue
            content = path.read_bytes()
            if name.endswith(GROWING):
                content = content[: content.rfind(b"\n") + 1]
            start = known.size if known and continues(content, known) else 0
            pieces.append(Piece(name, content[start:], start > 0))
            sent[name] = Sent(now, len(content), hashlib.sha256(content).hexdigest())
        # A checkpoint without what belongs to it would be of no use, so it comes last.
        pieces.sort(key=lambda piece: piece.name == checkpoint.FILE)
        return [*pieces, *(Piece(name, None) for name in self.sent if name not in sent)], sent


def continues(content: bytes, known: Sent) -> bool:
    """Whether a file has only grown."""
    return known.size > 0 and hashlib.sha256(content[: known.size]).hexdigest() == known.digest


def stamp(path: Path) -> tuple[int, int, int]:
    """Return what is different after a file was changed."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def list_run(folder: Path) -> Iterator[Path]:
    """List the files of a run, without those that it is just writing."""
    for path in sorted(folder.rglob("*")):
        if path.name != LOCK and DRAFT.fullmatch(path.name) is None and path.is_file():
            yield path


def list_parent(folder: Path, number: int) -> Iterator[Path]:
    """List what a run needs of the one from whose round it begins."""
    model = f"round-{number:05d}.safetensors"
    for path in list_run(folder):
        place = path.relative_to(folder).parts[0]
        if place != "images" and (place != "models" or path.name == model):
            yield path


def receive(folder: Path, pieces: list[Piece], names: Mapping[str, str]) -> None:
    """Write what has arrived; `names` are the paths that files hold, and what they are here."""
    for name, content, appended in pieces:
        path = folder / name
        if content is None:
            path.unlink(missing_ok=True)
            continue
        if path.suffix in TEXTS:
            for there, here in names.items():
                content = content.replace(there.encode(), here.encode())
        if appended:
            with path.open("ab") as file:
                file.write(content)
        else:
            write_whole(path, content, private=name.startswith("memory/"))


class RunActor:
    """Does one run on the host where Ray has put it."""

    def __init__(self, required: Requirements) -> None:
        if faults := find_faults(required):  # the host may have joined after all were asked
            raise FedmirageError(f"host {own_name()} {'; '.join(faults)}")
        self.home = Path(tempfile.mkdtemp(prefix="fedmirage-run-"))
        mark = f"FEDMIRAGE_RUN={secrets.token_hex(8)}:{self.home}"
        self.processes = Processes(mark, self.home, adopted=True).__enter__()
        self.sender = Sender(self.home / RUN)
        self.ended, self.reason = False, ""

    def begin(
        self, settings: dict[str, Any], actors: int, own: list[Piece], parent: list[Piece]
    ) -> tuple[str, str]:
        """Begin or continue the run with the files that there are; return host and folder."""
        for name, pieces in ((RUN, own), (PARENT, parent)):
            (self.home / name).mkdir()
            receive(self.home / name, pieces, {})
        self.sender.read()  # what it has already, the command has
        run, _, number = str(settings.get("warm-start", "")).partition("@")
        here = {"out": str(self.home / RUN)}
        here |= {"resume": here["out"]} if settings.get("resume") else {}
        here |= {"warm-start": f"{self.home / PARENT}@{number}".rstrip("@")} if run else {}
        request = {"config": {**settings, **here}, "folder": here["out"], "actors": actors}
        request |= {"runtime": "inprocess", "verbose": False}
        threading.Thread(target=self._attend, args=(request,), daemon=True).start()
        return own_name(), str(self.home)

    def _attend(self, request: dict[str, Any]) -> None:
        try:
            attend(self.processes, request, Console(quiet=True))
        except (FedmirageError, OSError) as error:
            self.reason = str(error)
        finally:
            self.ended = True

    def look(self) -> tuple[list[Piece], bool, str]:
        """Return what is new in the folder, whether the run has ended, and why it failed."""
        ended = self.ended  # before its last files are read
        return self.sender.read(), ended, self.reason

    def clear(self) -> None:
        """Remove the folder, before Ray ends this process."""
        os.chdir("/")
        self.processes.stop()
        shutil.rmtree(self.home, ignore_errors=True)
