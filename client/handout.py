"""Receiving a set that the server hands out once per version.

The server's half is server/strategy/handout.py.
"""

from collections.abc import Callable

from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import Memory
from fedmirage.common.wire.handout import is_recipe, is_version
from fedmirage.common.wire.payload import Array, Arrays


def receive(
    section: Arrays,
    memory: Memory,
    key: str,
    what: str,
    make: Callable[[Array], Arrays] | None = None,
) -> Arrays:
    """Find the set whose digest the server names: in memory, in the message, or by its recipe.

    From now on it is remembered under `key`, where it replaces an older version. If it cannot be
    found, the server gets a sentence in which `what` names the set ("the virtual set"), and sends
    the arrays when it next asks this node.
    """
    version, *came = section
    remembered = memory.get(key)
    if remembered is not None and is_version(remembered, version):
        return remembered
    if not came:
        raise FedmirageError(
            f"this node does not hold {what} any more; it is sent when the node is next asked"
        )
    arrays = came
    if not is_version(came, version):
        if make is None or not is_recipe(came):
            raise FedmirageError(
                f"{what} that came to this node is not the one that the server names: its SHA-256"
                " differs; it is sent again when the node is next asked"
            )
        arrays = make(came[0])
        if not is_version(arrays, version):
            raise FedmirageError(
                f"{what} that this node made is not the server's: its SHA-256 differs, as another"
                " processor or another version of torch may cause; the arrays themselves are sent"
                " when the node is next asked"
            )
    memory.put(key, arrays)
    return arrays
