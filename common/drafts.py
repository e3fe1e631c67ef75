"""Files that are being written beside the ones that they will replace, and those left by a kill."""

import os
import re
from pathlib import Path

DRAFT = re.compile(r"\..+\.([1-9]\d*)\.tmp")  # the name of a draft, with the id of its process


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
