"""Which of a model's weights cross the wire, and which stay with the client."""

from collections.abc import Sequence

from common.method import Shares
from common.methods import Method

PREFIXES: dict[Shares, tuple[str, ...]] = {
    "model": ("",),
    "extractor": ("features.",),
    "classifier": ("classifier.",),
    "generator and classifier": ("generator.", "classifier."),
    "nothing": (),
}


def shared_positions(names: Sequence[str], methods: Sequence[Method]) -> list[int]:
    """Positions of the shared weights among all weights of the model, in their order."""
    share: Shares = next((method.shares for method in methods if method.shares != "model"), "model")
    return [position for position, name in enumerate(names) if name.startswith(PREFIXES[share])]
