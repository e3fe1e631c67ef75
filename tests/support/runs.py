"""Short runs in one process, and what they leave behind."""

from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.testing.runs import KilledError, assert_same_bits, kill_in_round, lines, weights

__all__ = [
    "SMALL",
    "KilledError",
    "assert_same_bits",
    "difference",
    "kill_in_round",
    "lines",
    "pictures",
    "some_client_returned",
    "weights",
    "without_times",
]

SMALL: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "clients": 4,
    "rounds": 3,
    "batch_size": 16,
    "local_steps": 3,
}


def difference(one: Path, other: Path) -> float:
    """Return how far two runs are apart in the weight that differs most."""
    pairs = zip(weights(one), weights(other), strict=True)
    return max(float(np.abs(a.astype(np.float64) - b).max(initial=0)) for a, b in pairs)


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
