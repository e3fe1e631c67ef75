"""FedAdam on the server: the second moment is a running mean of squares.

Declared in common/methods/fedadam.py.
"""

from fedmirage.common.methods.fedadam import FedAdam
from fedmirage.common.wire.payload import Array
from fedmirage.server.methods._adaptive import AdaptiveRule


class FedAdamServer(AdaptiveRule[FedAdam]):
    """v <- beta2 v + (1 - beta2) D^2."""

    def second_moment(self, before: Array, squared: Array) -> Array:
        """Adam's second moment."""
        return self.params.beta2 * before + (1 - self.params.beta2) * squared
