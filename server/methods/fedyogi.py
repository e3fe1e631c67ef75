"""FedYogi on the server: the second moment moves towards the squares by a fixed share of them.

Declared in common/methods/fedyogi.py.
"""

import numpy as np

from fedmirage.common.methods.fedyogi import FedYogi
from fedmirage.common.wire.payload import Array
from fedmirage.server.methods._adaptive import AdaptiveRule


class FedYogiServer(AdaptiveRule[FedYogi]):
    """v <- v - (1 - beta2) D^2 sign(v - D^2)."""

    def second_moment(self, before: Array, squared: Array) -> Array:
        """Yogi's second moment; it stays positive, since it shrinks only where v > D^2."""
        direction: Array = np.sign(before - squared)
        return before - (1 - self.params.beta2) * squared * direction
