"""What a client keeps in files between rounds, and how it travels.

The files stay in the folder of the run, on the host of the command. A message takes those that its
client may need along, the actor works on copies, and the reply brings back what has changed. So any
host can train any client in any round, and a host that dies takes nothing with it that counts: the
client's files are then those of its last reply. Nothing needs a folder that hosts share, where one
may see for half a minute what another has replaced long ago.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Message

from fedmirage.common.drafts import DRAFT, write_whole
from fedmirage.common.errors import TRACEBACK
from fedmirage.common.memory import round_of, versions

MEMORY = "memory"
NEWEST = 3  # rounds that a client may need: its last, an older one if that is damaged, a late one
Files = dict[str, bytes]  # by their paths in the folder of the run
Stamp = tuple[int, int, int]  # of a file: another one after it was changed


@dataclass
class Changes:
    """What an answer has changed among the files."""

    written: Files = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


def pack_files(folder: Path, message: Message, partition: int) -> Files:
    """Read the files that a client may need to answer a message."""
    parent, _, after = str(settings_of(message).get("parent", "")).partition("@")
    found: Files = {}
    for path in list_files(folder / MEMORY, partition, parent, int(after or 0)):
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def settings_of(message: Message) -> Mapping[str, Any]:
    """Return the scalars of a message, in which the server says what it is about."""
    if not message.has_content():
        return {}
    records = message.content.config_records.values()
    return {key: value for record in records for key, value in record.items()}


def list_files(memory: Path, partition: int, parent: str, after: int) -> Iterator[Path]:
    """List a client's files: its notes, and of its memories those that a round may read.

    Of the run from which this one began, they are those up to the round in which it began.
    """
    name = f"client-{partition:05d}"
    yield from (path for path in memory.glob(f"{name}-*") if path.is_file())
    yield from (memory / "secagg" / f"{partition:05d}").glob("*.json")
    for client in memory.glob(f"*/{name}"):
        known = versions(client)
        if client.parent.name == parent:
            known = [path for path in known if round_of(path) <= after]
        yield from known[-NEWEST:]
        others = (path for path in client.rglob("*") if path.is_file())
        yield from (path for path in others if path.suffix != ".safetensors")


def write_files(folder: Path, files: Files) -> dict[str, Stamp]:
    """Write files into an empty folder, and return how they look."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)
    return stamp_files(folder)


def stamp_files(folder: Path) -> dict[str, Stamp]:
    """Return the stamps of all files of a folder."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and DRAFT.fullmatch(path.name) is None:
            status = path.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            found[path.relative_to(folder).as_posix()] = stamp
    return found


def find_changes(folder: Path, before: Mapping[str, Stamp]) -> Changes:
    """Read what was written since, and list what was removed.

    Files are replaced or grow; none is changed in its place.
    """
    after = stamp_files(folder)
    new = [name for name, stamp in after.items() if before.get(name) != stamp]
    gone = [name for name in before if name not in after]
    return Changes({name: (folder / name).read_bytes() for name in new}, gone)


def apply_changes(folder: Path, changes: Changes) -> None:
    """Change the folder of the run in the same way; a file is whole or not there."""
    for name, content in changes.written.items():
        if name == TRACEBACK and (folder / name).exists():
            continue  # the first one stays
        write_whole(folder / name, content, private=name.startswith(f"{MEMORY}/"))
    for name in changes.removed:
        (folder / name).unlink(missing_ok=True)


def empty(folder: Path) -> None:
    """Remove what is in a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def rename(message: Message, there: str, here: str) -> None:
    """Let a reply name files where they will be once it has arrived."""
    if not message.has_content():
        return
    for record in message.content.config_records.values():
        for key, value in record.items():
            if isinstance(value, str) and there in value:
                record[key] = value.replace(there, here)
