"""FedAdagrad on the server: the second moment is the sum of squares.

Declared in common/methods/fedadagrad.py.
"""

from fedmirage.common.methods.fedadagrad import FedAdagrad
from fedmirage.common.wire.payload import Array
from fedmirage.server.methods._adaptive import AdaptiveRule


class FedAdagradServer(AdaptiveRule[FedAdagrad]):
    """v <- v + D^2."""

    def second_moment(self, before: Array, squared: Array) -> Array:
        """Adagrad's second moment."""
        return before + squared
