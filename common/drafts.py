"""Files that are written whole or not at all, and what a killed process leaves of them."""

import os
import re
from collections.abc import Callable
from pathlib import Path

DRAFT = re.compile(r"\..+\.([1-9]\d*)\.tmp")  # the name of a draft, with the id of its process


def write_whole(
    path: Path,
    content: bytes,
    private: bool = False,
    place: Callable[[Path, Path], None] = os.replace,
) -> None:
    """Write a file, which is whole and on the disk when `place` gives it its name."""
    draft = name_draft(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    try:
        with open(draft, "wb", opener=open_private if private else None) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def open_private(path: str, flags: int) -> int:
    """Create a file that only its owner can read."""
    return os.open(path, flags, 0o600)


def name_draft(target: Path) -> Path:
    """Name the file in which this process writes what then replaces the target."""
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")


def remove_drafts(folder: Path) -> None:
    """Remove what processes of this machine were writing into a folder when they were killed."""
    for path in folder.glob(".*.tmp"):
        match = DRAFT.fullmatch(path.name)
        if match and not is_running(int(match[1])):
            path.unlink(missing_ok=True)


def is_running(identifier: int) -> bool:
    """Whether there is a process with this id on this machine."""
    try:
        os.kill(identifier, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to somebody else
        return True
    return True
