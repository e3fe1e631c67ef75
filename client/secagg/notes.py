"""Small files in which a client notes what binds it, before it sends what the note is about."""

import json
import os
from pathlib import Path
from typing import Any


def write_note(path: Path, content: dict[str, Any]) -> None:
    """Write a new file; it is on the disk when this returns, and of two at a time one succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x") as file:
        file.write(json.dumps(content))
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
