"""Checks that this Flower has the names that a SuperNode of ours relies on."""

from collections.abc import Container


def require(known: Container[str], names: tuple[str, ...], consequence: str) -> None:
    """Refuse a Flower that lacks one of these names; the consequence completes the sentence."""
    for name in names:
        if name not in known:
            # here, because a task that runs the code of a run must load nothing of the app before
            from common.errors import FedmirageError

            raise FedmirageError(
                f"this release of Flower has no {name}, so that {consequence}; install flwr 1.34"
            )
