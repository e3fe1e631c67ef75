"""What short runs leave behind, and how to interrupt one."""

from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from fedmirage.common.memory import local_models
from fedmirage.common.wire.files import read_arrays
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.record.results import read_results


def lines(folder: Path, kind: str = "round") -> list[dict[str, Any]]:
    """Read the lines of one kind from the results of a run."""
    return [line for line in read_results(folder / "results.jsonl") if line["kind"] == kind]


def weights(folder: Path) -> list[np.ndarray]:
    """Read the shared weights after the last round."""
    return read_checkpoint(folder / "checkpoint.safetensors").shared


def assert_same_bits(one: Path, other: Path) -> None:
    """Fail unless two runs share the same weights in every bit."""
    pairs = list(zip(weights(one), weights(other), strict=True))
    assert pairs
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def arrays(folder: Path) -> list[np.ndarray]:
    """Read all weights that a run leads to: shared, saved as its model, and each client's own."""
    state = read_checkpoint(folder / "checkpoint.safetensors")
    own = local_models(folder / "memory" / state.token, state.round)
    saved = folder / "model.safetensors"
    offered = read_arrays(saved)[0] if saved.exists() else {}
    return [*state.shared, *offered.values(), *(array for _, model in own for array in model)]


def differ(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Whether results differ by more than rounding."""
    if [array.shape for array in one] != [array.shape for array in other]:
        return True
    return any(np.abs(a - b).max() > 1e-6 for a, b in zip(one, other, strict=True))


def same_bits(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Whether results are the same in every bit."""
    return [array.tobytes() for array in one] == [array.tobytes() for array in other]


class KilledError(Exception):
    """Stands for a process that was killed."""


def kill_in_round(number: int) -> Any:
    """Let half of the clients of a round finish, and then stop everything."""
    seen = []

    def intercept(node: int, reply: Message) -> Message:
        """Count the replies of that round, and stop at the second."""
        group = reply.metadata.group_id
        if group == str(number):
            seen.append(node)
            if len(seen) > 1:
                raise KilledError
        return reply

    return intercept
