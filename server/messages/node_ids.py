"""Binds node keys to partitions, so that no node can take another's place.

A node names its partition itself, and any registered node could name any of them. With
FEDMIRAGE_NODES in the SuperLink's environment, only the node that a TOML file names may serve a
partition:

    "7312648163541231" = 0   # node id = partition

A SuperLink that authenticates nodes derives the id from the node's registered key, so the file
binds keys. `deploy/admit.py` writes it.
"""

import os
import tomllib
from pathlib import Path

from fedmirage.common.errors import FedmirageError, WireError, reason

VARIABLE = "FEDMIRAGE_NODES"


def check_node_id(node: int, partition: int) -> None:
    """Raise a WireError if a node may not serve a partition.

    The file is read each time, because nodes may be admitted and revoked while a run goes on.
    """
    file = os.environ.get(VARIABLE)
    if not file:
        return
    bound = read_node_ids(Path(file)).get(node)
    if bound is None:
        raise WireError(
            f"its key is bound to no partition; name node {node} in the file of {VARIABLE}"
        )
    if bound != partition:
        raise WireError(
            f"its key is bound to partition {bound}, but it says partition-id={partition}"
        )


def read_node_ids(path: Path) -> dict[int, int]:
    """Read the partition of each node id."""
    try:
        places = tomllib.loads(path.read_text())
        if not all(type(partition) is int for partition in places.values()):
            raise ValueError("a partition is a number, counted from 0")
        return {int(node): partition for node, partition in places.items()}
    except (OSError, ValueError) as error:  # tomllib's error is a ValueError
        raise FedmirageError(
            f"{VARIABLE} is {path}, which cannot be used ({reason(error)}); write one line"
            ' "NODE ID" = PARTITION per node, or unset the variable'
        ) from None
