"""Checks that this Flower has the names that a SuperNode of ours relies on."""

from common.errors import FedmirageError


def require(place: object, names: tuple[str, ...], consequence: str) -> None:
    """Refuse a Flower that lacks one of these names; the consequence completes the sentence."""
    for name in names:
        if not hasattr(place, name):
            raise FedmirageError(
                f"this release of Flower has no {name}, so that {consequence}; install flwr 1.34"
            )
