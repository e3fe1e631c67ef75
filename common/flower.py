"""Places inside Flower that this project changes, though they are no public interface."""

import contextlib
import importlib
import os
from collections.abc import Container

from flwr.supercore.inflatable import inflatable_utils

from fedmirage.common.errors import FedmirageError

WAITING = "FEDMIRAGE_WAITING"  # the variable that says how Flower's loops wait
SHORTEST = 0.05  # seconds of an adaptive wait
LEFT = f"cannot be adapted ({WAITING}=flower leaves it as it is)"


def require(known: Container[str], names: tuple[str, ...], consequence: str) -> None:
    """Refuse a Flower that lacks one of these names; the consequence completes the sentence."""
    for name in names:
        if name not in known:
            raise FedmirageError(
                f"this release of Flower has no {name}, so {consequence}; install flwr 1.34"
            )


def name_task() -> None:
    """Name the task of this process, without which newer releases of Flower make no message.

    Flower 1.34 has no such names; under Flower's own runtimes, Flower sets them.
    """
    with contextlib.suppress(ModuleNotFoundError):
        task = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
        task.task_id = task.run_id = task.node_id = 1


def fetch_promptly() -> None:
    """Let this process try again sooner if parts of a message have not arrived yet.

    Flower announces a message before its parts, and who then fetches a part too early waits for a
    second. Nodes and servers that look for messages often do so in almost every round.
    """
    for function in ("pull_objects", "pull_and_inflate_object_from_tree"):
        require(vars(inflatable_utils), (function,), f"the fetching of messages {LEFT}")
        defaults = getattr(inflatable_utils, function).__kwdefaults__ or {}
        require(defaults, ("initial_backoff",), f"the waiting in {function} {LEFT}")
        defaults["initial_backoff"] = SHORTEST


def fetch_as_configured() -> None:
    """Fetch promptly, unless the environment leaves Flower's waiting as it is."""
    if os.environ.get(WAITING) != "flower":
        fetch_promptly()
