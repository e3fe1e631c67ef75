"""Compares the schemas of server and node, so that a column means the same everywhere.

The node makes the comparison, and its own log says where the two differ: what the columns of its
table are called is nobody else's business.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from fedmirage.common.data.tables.schema import parse_schema
from fedmirage.common.errors import DataError
from fedmirage.common.settings.language import nearest

SCHEMA = "schema"  # the key of what the server tells a new node


def hash_schema(text: str) -> str:
    """Return the SHA-256 of what a schema says."""
    return hashlib.sha256(text.encode()).hexdigest()


def announce_schema(text: str) -> dict[str, str]:
    """Return what the server tells a new node about its table, if it has one."""
    return {SCHEMA: text} if text else {}


def schema_problem(ours: str, told: Mapping[str, Any]) -> tuple[str, str] | None:
    """Explain how a node's schema differs from the server's, or return None if it does not.

    The first sentence is for the server; the second one, for the node's own log, says where. Where
    the server announced nothing, there is no problem.
    """
    theirs = str(told.get(SCHEMA, ours))
    if hash_schema(ours) == hash_schema(theirs):
        return None
    hashes = [hash_schema(text)[:12] for text in (ours, theirs)]
    start = f"the schema of its table is another one ({hashes[0]}..., the server's {hashes[1]}...)"
    fix = "copy one file to the server and to all nodes"
    return (
        f"{start}; its own log says where they differ: {fix}",
        f"the schema of this node's table is not the server's: {find_place(ours, theirs)}; {fix}",
    )


def find_place(ours: str, theirs: str) -> str:
    """Say where two schemas differ first."""
    try:
        one, other = parse_schema(ours), parse_schema(theirs)
    except (ValueError, DataError):
        return "the server's cannot be read; run the same version on both sides"
    for key in ("label", "classes", "separator", "decimal", "empty"):
        if getattr(one, key) != getattr(other, key):
            return f"{key} differs"
    here, there = ([column.name for column in schema.column] for schema in (one, other))
    for names, others, whose in ((here, there, "here"), (there, here, "the server's")):
        if alone := [name for name in names if name not in others]:
            return f"only the schema {whose} has the column {alone[0]!r}{nearest(alone[0], others)}"
    if here != there:
        return "the columns stand in another order"
    pairs = zip(one.column, other.column, strict=True)
    changed = next(mine.name for mine, yours in pairs if mine != yours)
    return f"what it says of the column {changed!r} differs"
