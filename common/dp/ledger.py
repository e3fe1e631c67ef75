"""A ledger: every release is written down, and is on the disk, before anything leaves.

A checkpoint is written after a round, so a crash between the two would otherwise release a model
that nobody counts. Lines are only ever added.
"""

import json
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import append_line
from fedmirage.common.errors import DataError

FILE = "releases.jsonl"


class Ledger:
    """Lines of JSON in a file; without a path they are kept in memory only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = [] if path is None else read_ledger(path)

    def add(self, **entry: Any) -> None:
        """Write one entry; it is on the disk when this returns."""
        if self.path is not None:
            append_line(self.path, json.dumps(entry).encode())
        self.entries.append(entry)


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Read all entries.

    Half a line was never complete, so that nothing left for it. It can be followed by others, and
    only a line that no kill can explain is damage.
    """
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else [], 1):
        try:
            entry = json.loads(line)
        except ValueError:
            if line.startswith(b"{") and not line.endswith(b"}"):
                continue
            raise damage(path, number) from None
        if not isinstance(entry, dict):
            raise damage(path, number)
        entries.append(entry)
    return entries


def damage(path: Path, line: int) -> DataError:
    """Say that the budget is unknown."""
    return DataError(
        f"line {line} of the privacy ledger {path} cannot be read, so nobody knows what was"
        " released; restore the file from a copy"
    )
