"""Binds node keys to sites: to a name and a partition, so that no node can take another's place.

A node names its partition and its site itself, and any registered node could name any of them. With
FEDMIRAGE_NODES in the SuperLink's environment, only the node that a TOML file names may serve a
partition:

    "7312648163541231" = { name = "site-a", partition = 0 }   # by node id

A SuperLink that authenticates nodes derives the id from the node's registered key, so the file
binds keys. `fedmirage admit` writes it. A number in place of the braces is the partition of a node
without a name.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmirage.common.errors import FedmirageError, WireError, reason
from fedmirage.common.site_names import is_site_name

VARIABLE = "FEDMIRAGE_NODES"


@dataclass(frozen=True)
class Site:
    """For whom a node may stand."""

    partition: int
    name: str = ""  # empty: people call it by its partition

    def __str__(self) -> str:
        return self.name or f"client {self.partition}"


def list_admitted() -> dict[int, Site]:
    """Return the site of each node that may take part, by node id; none if any node may.

    The file is read each time, because nodes may be admitted and revoked while a run goes on.
    """
    file = os.environ.get(VARIABLE)
    return read_node_ids(Path(file)) if file else {}


def identify(node: int, partition: int, claimed: str) -> str:
    """Return the name of the site for which a node stands, or empty if it has none.

    A node that may not serve its partition, or claims the name of another site, is refused.
    """
    if not os.environ.get(VARIABLE):
        return claimed
    site = list_admitted().get(node)
    if site is None:
        raise WireError(
            "its key is bound to no site; whoever runs the SuperLink admits it with `fedmirage"
            f" admit`, or writes node {node} into the file of {VARIABLE}"
        )
    if site.partition != partition:
        raise WireError(
            f"its key is bound to partition {site.partition}, but it says partition-id={partition}"
        )
    if claimed and claimed != site.name:
        bound = f"the site {site.name!r}" if site.name else "no name"
        raise WireError(
            f"its key is bound to {bound}, but it says that it is {claimed!r}; give its --name as"
            " it was admitted, or leave it out"
        )
    return site.name


def read_node_ids(path: Path) -> dict[int, Site]:
    """Read the site of each node id."""
    try:
        entries = tomllib.loads(path.read_text())
        return {int(node): _read_site(entry) for node, entry in entries.items()}
    except (OSError, ValueError) as error:  # tomllib's error is a ValueError
        raise FedmirageError(
            f"{VARIABLE} is {path}, which cannot be used ({reason(error)}); write one line"
            ' "NODE ID" = PARTITION per node, or unset the variable'
        ) from None


def _read_site(entry: Any) -> Site:
    """Read the partition of a node, alone or beside the name of its site."""
    told = entry if isinstance(entry, dict) else {"partition": entry}
    partition, name = told.get("partition"), told.get("name", "")
    if type(partition) is not int or partition < 0:
        raise ValueError("a partition is a number, counted from 0")
    if name and not is_site_name(name):
        raise ValueError(f"{name!r} is no name of a site")
    return Site(partition, name)
