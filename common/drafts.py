"""Files and lines that are written whole or not at all, and what a killed process leaves."""

import errno
import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

DRAFT = re.compile(r"\..+\.([1-9]\d*)\.tmp")  # the name of a draft, with the id of its process


def write_whole(
    path: Path,
    content: bytes | Callable[[BinaryIO], object],
    private: bool = False,
    place: Callable[[Path, Path], None] = os.replace,
) -> None:
    """Write bytes, or what a function writes; all is on the disk when `place` names the file."""
    draft = name_draft(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    try:
        with open(draft, "wb", opener=open_private if private else None) as file:
            content(file) if callable(content) else file.write(content)
            file.flush()
            os.fsync(file.fileno())
        place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file that only its owner can read; it is on the disk when this returns.

    Several processes may do so at a time: they wait for each other. A line that cannot be written
    whole leaves nothing. A kill may leave half of one, which the next line does not continue.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(path, "a+b", buffering=0, opener=open_private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        whole = (b"" if file.read(1) in (b"", b"\n") else b"\n") + line + b"\n"
        try:
            if (written := file.write(whole)) < len(whole):
                raise OSError(errno.ENOSPC, f"{written} of {len(whole)} bytes fit", str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


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
