"""Shows what left this site: the lines of outgoing.jsonl as a table, newest last."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fedmirage.client.node.outgoing import FILE
from fedmirage.common.errors import FedmirageError, reason

SHOWN = 4  # shapes of a section
START = 12  # digits of a checksum
COLUMNS = ("time", "client", "run", "round", "message", "sent", "bytes", "protection", "sha256")


def show_sent(console: Console, memory: Path) -> None:
    """Print the table of a memory folder, and name every line that cannot be read."""
    path = memory / FILE
    entries, damaged = read_entries(path)
    table = Table(title=f"sent from this site ({path})", title_justify="left", show_lines=False)
    for column in COLUMNS:
        right = column in ("round", "bytes")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for entry in entries:
        table.add_row(*row(entry))
    console.print(table)
    if damaged:
        lines = ", ".join(map(str, damaged))
        raise FedmirageError(
            f"{path}: line {lines} cannot be read, so what was sent there is unknown; a kill may"
            " leave half a line, for which nothing was sent"
        )


def read_entries(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Read all lines; return what they say, and the numbers of those that cannot be read."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise FedmirageError(
            f"{path} is not there, so this node has sent nothing, or remembers elsewhere; name its"
            " folder with --memory, or give the --node-config that it is started with"
        ) from None
    except OSError as error:
        raise FedmirageError(f"{reason(error)}; read it as the user that runs the node") from None
    entries, damaged = list[dict[str, Any]](), list[int]()
    for number, line in enumerate(lines, 1):
        try:
            entries.append({**json.loads(line)})
        except (ValueError, TypeError):
            damaged.append(number)
    return entries, damaged


def row(entry: dict[str, Any]) -> Sequence[str]:
    """Write one line of the table."""
    protection = [f"{key} {entry.get(key)}" for key in ("secagg", "dp") if entry.get(key)]
    if entry.get("epsilon") is not None:
        protection.append(f"epsilon {entry['epsilon']:.4g}")
    number = entry.get("round")
    return (
        str(entry.get("time", ""))[:19].replace("T", " "),
        str(entry.get("partition")),
        str(entry.get("run") or entry.get("run_id")),
        "" if number is None else str(number),
        str(entry.get("message")),
        describe(entry),
        f"{entry.get('bytes', 0):,}",
        ", ".join(protection),
        str(entry.get("sha256") or "")[:START],
    )


def describe(entry: dict[str, Any]) -> str:
    """Say what was sent: sections with their shapes, or a sentence, or names of numbers only."""
    if entry.get("said"):
        return f"a refusal: {entry['said']}"
    parts = []
    for name, items in entry.get("sections", {}).items():
        shapes = ["x".join(map(str, item["shape"])) or "1" for item in items]
        more = f" and {len(shapes) - SHOWN} more" if len(shapes) > SHOWN else ""
        parts.append(f"{name} {', '.join(shapes[:SHOWN])}{more}")
    count = len(entry.get("metrics", ()))
    return "; ".join([*parts, *([f"{count} numbers and texts"] if count else [])])
