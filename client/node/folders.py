"""Where a node keeps what its clients remember; loads quickly, since every message needs it."""

import os
import re
from pathlib import Path

from flwr.app import Context

from fedmirage.common.errors import WireError

TOKEN = re.compile("[0-9a-f]{16}")  # how the server names a run


def memory_folder(context: Context, memory: Path | None = None) -> Path:
    """Find the folder of all memories: the given one, the node's own setting, or Flower's home."""
    return memory or Path(
        str(context.node_config.get("memory") or flower_home() / "fedmirage" / "memory")
    )


def client_folder(memory: Path, token: str, partition: int) -> Path:
    """Find what one client remembers of one run; the server may not name other places."""
    if not TOKEN.fullmatch(token):
        raise WireError(f"the server names the run {token!r}, and not by 16 digits 0-9a-f")
    return memory / token / f"client-{partition:05d}"


def flower_home() -> Path:
    """The folder where Flower keeps its files on this node."""
    return Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr")
