"""Reads and writes what the messages of a secure round carry beside Flower's own fields."""

from typing import cast

from flwr.app import ConfigRecord, Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS

from fedmirage.common.secagg.agreement import NODES, SIGNATURES, TAGS


def write_tags(tags: dict[int, bytes]) -> ConfigRecord:
    """Write what clients have vouched for, by node."""
    return ConfigRecord({NODES: list(tags), TAGS: list(tags.values())})


def read_parts(replies: dict[int, Message], name: str) -> dict[int, bytes]:
    """Read one field of the replies, by node; it has been checked before."""
    return {
        node: cast(bytes, reply.content.config_records[RECORD_KEY_CONFIGS][name])
        for node, reply in replies.items()
    }


def find_signatures(replies: dict[int, Message]) -> dict[int, bytes]:
    """Find with what clients have signed their keys, if they did; the server only passes it on."""
    found = {
        node: reply.content.config_records.get(SIGNATURES, ConfigRecord()).get(TAGS)
        for node, reply in replies.items()
    }
    return {
        node: tags[0]
        for node, tags in found.items()
        if isinstance(tags, list) and len(tags) == 1 and isinstance(tags[0], bytes)
    }


def count_bytes(message: Message) -> int:
    """Count the bytes of a message's arrays, and of the keys, shares and masked numbers in it."""
    arrays = sum(
        len(array.data)
        for record in message.content.array_records.values()
        for array in record.values()
    )
    values = [
        value for record in message.content.config_records.values() for value in record.values()
    ]
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return arrays + sum(len(part) for part in parts if isinstance(part, bytes))
