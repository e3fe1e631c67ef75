"""What left this site: before a deployed node sends a message, a line of outgoing.jsonl says so.

The line is on the disk, with fsync, before Flower gets the message. It says when, in which run and
round, by which methods and under which protection; the name, type, shape and size of everything
that is sent, and the SHA-256 of its arrays; but no value. If it cannot be written, nothing is sent.
"""

import copy
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import ERROR
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Error, Message
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import MessageTypeLegacy, log
from flwr.common.constant import ErrorCode

from fedmirage.client.node.demands import read_demands
from fedmirage.common.dp.accounting import compose_gaussians
from fedmirage.common.dp.ledger import FILE as RELEASES
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.drafts import append_line
from fedmirage.common.memory import memory_folder
from fedmirage.common.secagg.protocol import RECORD as SECURE
from fedmirage.common.secagg.protocol import REFUSAL
from fedmirage.common.wire.metrics import ERROR as WHY_NOT
from fedmirage.common.wire.payload import LAYOUT, find_start, read_header, read_layout
from fedmirage.common.wire.preparation import PREPARE

FILE = "outgoing.jsonl"
UNWRITTEN = "it cannot write down what it would send, so it sends nothing; its own log says why"
KINDS = {MessageTypeLegacy.GET_PROPERTIES: "properties"}  # Flower's other words say what is meant
SETTINGS = ("methods", "secagg", "dp")
SHORT = 2  # bytes of a number in the types that a section may declare (wire)


@dataclass(frozen=True)
class Item:
    """One array, or one piece of bytes, of a message."""

    section: str
    type: str
    shape: tuple[int, ...]
    content: bytes

    def describe(self) -> dict[str, Any]:
        """Say what it is, without a value."""
        return {"type": self.type, "shape": list(self.shape), "bytes": len(self.content)}


def write_down(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Let a message be answered, and write the answer down before it is sent. A mod of Flower's.

    Clients of a simulation write nothing down.
    """
    before = copy.deepcopy(context.state)
    reply = call_next(message, context)
    if is_simulated():
        return reply
    try:
        note(message, reply, context)
    except Exception as error:  # whatever it is, nothing may leave that is not written down
        log(ERROR, "nothing is sent, because %s cannot be written: %s", FILE, error)
        context.state = before
        refusal = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, UNWRITTEN)
        return Message(refusal, reply_to=message)
    return reply


def is_simulated() -> bool:
    """Whether this process is a worker of Flower's own simulation."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def note(message: Message, reply: Message, context: Context) -> None:
    """Append the line of one reply."""
    folder = memory_folder(context)
    entry = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "partition": context.node_config.get("partition-id"),
        **describe_request(message, context),
        **{key: context.run_config.get(key) for key in SETTINGS},
        "epsilon": find_epsilon(context, folder),
        **describe_reply(reply),
    }
    append_line(folder / FILE, json.dumps(entry).encode())


def describe_request(message: Message, context: Context) -> dict[str, Any]:
    """Say what is answered: the run, the round, and what was asked for."""
    told: dict[str, Any] = {}
    for record in message.content.config_records.values() if message.has_content() else ():
        told |= {key: record[key] for key in ("token", "round", "stage", PREPARE) if key in record}
    known: Mapping[str, Any] = context.state.config_records.get(SECURE, {})
    group = message.metadata.group_id
    kind = message.metadata.message_type
    kind = f"secagg {told['stage']}" if "stage" in told else KINDS.get(kind, kind)
    return {
        "run": told.get("token", known.get("token") if "stage" in told else None),
        "run_id": str(message.metadata.run_id),
        "round": int(group) if group.isdecimal() else told.get("round"),
        "message": "prepare" if PREPARE in told else kind,
    }


def find_epsilon(context: Context, folder: Path) -> float | None:
    """Compute what this node has spent over all runs, its answer included; None without dp."""
    partition = context.node_config.get("partition-id")
    if context.run_config.get("dp", "off") == "off" or partition is None:
        return None
    ledger = Ledger(folder / f"client-{int(partition):05d}-{RELEASES}")
    multipliers = [float(entry["multiplier"]) for entry in ledger.entries]
    epsilon = compose_gaussians(multipliers, read_demands(context.node_config).delta)
    return epsilon if epsilon < float("inf") else None


def describe_reply(reply: Message) -> dict[str, Any]:
    """Say what is sent: sections of arrays, the names of numbers and texts, and any sentence."""
    if reply.has_error():
        return {"sections": {}, "bytes": 0, "metrics": [], "sha256": None} | {
            "said": reply.error.reason
        }
    items, sections = list(list_items(reply)), dict[str, list[dict[str, Any]]]()
    for item in items:
        sections.setdefault(item.section, []).append(item.describe())
    names, said = list_others(reply)
    return {
        "sections": sections,
        "bytes": sum(len(item.content) for item in items),
        "metrics": names,
        "sha256": digest(item.content for item in items),
        "said": said,
    }


def digest(contents: Iterator[bytes]) -> str:
    """Return the SHA-256 of the arrays of a message, one after another, as they are sent."""
    found = hashlib.sha256()
    for content in contents:
        found.update(content)
    return found.hexdigest()


def list_items(reply: Message) -> Iterator[Item]:
    """Yield all arrays and all bytes of a message, in their order."""
    for name, record in reply.content.array_records.items():
        sections = name_sections(reply, record, name)
        for (section, declared), array in zip(sections, record.values(), strict=True):
            if array.data:  # a reply without arrays has an empty one of Flower's
                yield describe_array(section, declared, array)
    for other in reply.content.config_records.values():
        for key, value in other.items():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, bytes):
                    yield Item(key, "bytes", (len(part),), part)


def describe_array(section: str, declared: str, array: Array) -> Item:
    """Describe an array by its own first bytes; what Flower says of it may be empty."""
    shape, _, dtype, _ = read_header(array.data[: find_start(array.data)])
    kind = declared if declared and dtype.itemsize == SHORT else str(dtype)
    return Item(section, kind, shape, array.data)


def name_sections(reply: Message, record: ArrayRecord, otherwise: str) -> list[tuple[str, str]]:
    """Name the section of every array, and its declared type, as the message's layout does."""
    for told in reply.content.config_records.values():
        if layout := str(told.get(LAYOUT, "")):
            cuts, declared = read_layout(layout, len(record))
            named = {name: (name, declared.get(name, "")) for name in cuts}
            return [named[name] for name, cut in cuts.items() for _ in range(cut.start, cut.stop)]
    return [(otherwise, "")] * len(record)


def list_others(reply: Message) -> tuple[list[str], str | None]:
    """Name all numbers and texts of a message; a sentence that says why it is empty is kept."""
    content = reply.content
    records: list[Mapping[str, Any]] = [*content.metric_records.values()]
    records += [*content.config_records.values()]
    names = [key for record in records for key, value in record.items() if not is_bytes(value)]
    reasons = [str(record[WHY_NOT]) for record in records if WHY_NOT in record]
    if REFUSAL in content.config_records:
        reasons.append(str(content.config_records[REFUSAL]["reason"]))
    return names, next(iter(reasons), None)


def is_bytes(value: Any) -> bool:
    """Whether a value is listed as bytes."""
    return isinstance(value, bytes) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], bytes)
    )
