"""Short runs in one process, and what they leave behind."""

from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.record.results import read_results

SMALL: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "clients": 4,
    "rounds": 3,
    "batch_size": 16,
    "local_steps": 3,
}


def lines(folder: Path, kind: str = "round") -> list[dict[str, Any]]:
    return [line for line in read_results(folder / "results.jsonl") if line["kind"] == kind]


def weights(folder: Path) -> list[np.ndarray]:
    return read_checkpoint(folder / "checkpoint.safetensors").shared


def assert_same_bits(one: Path, other: Path) -> None:
    pairs = list(zip(weights(one), weights(other), strict=True))
    assert pairs
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def without_times(folder: Path) -> list[dict[str, Any]]:
    """The lines of the rounds, without how long anything took: methods measure that, too."""

    def strip(found: Any) -> Any:
        if isinstance(found, dict):
            return {key: strip(value) for key, value in found.items() if "seconds" not in key}
        return [strip(one) for one in found] if isinstance(found, list) else found

    return [strip(line) for line in lines(folder)]


def pictures(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in (folder / "images").rglob("*.png")
    }


def some_client_returned(folder: Path) -> bool:
    """Whether a client took part again after a round without it."""
    seen = [{client["partition"] for client in line["clients"]} for line in lines(folder)]
    return any(
        client in earlier and client not in between
        for earlier, between, later in zip(seen, seen[1:], seen[2:], strict=False)
        for client in later
    )


class KilledError(Exception):
    """Stands for a process that was killed."""


def kill_in_round(number: int) -> Any:
    """Let half of the clients of a round finish, and then stop everything."""
    seen = []

    def intercept(node: int, reply: Message) -> Message:
        group = reply.metadata.group_id
        if group == str(number):
            seen.append(node)
            if len(seen) > 1:
                raise KilledError
        return reply

    return intercept
