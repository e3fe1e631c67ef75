"""FedAvgM on the server: the velocity. Declared in common/methods/fedavgm.py."""

from dataclasses import dataclass, field

import numpy as np

from fedmirage.common.methods.fedavgm import FedAvgM
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.rule import ServerRule, plus


@dataclass
class FedAvgMState:
    """What outlives a round."""

    # v in the paper, one array per trainable weight; empty before the first round.
    velocity: Arrays = field(default_factory=list)


class FedAvgMServer(ServerRule[FedAvgM]):
    """w + lr v, written as average + extra.

    With momentum=0 and lr=1 the extra is zero, and what remains is FedAvg, bit for bit.
    """

    state: FedAvgMState
    state_type = FedAvgMState

    def step(self, broadcast: Arrays, average: Arrays) -> Arrays:
        """v <- momentum v + D, w <- w + lr v, or with Nesterov w <- w + lr (momentum v + D)."""
        momentum, lr = self.params.momentum, self.params.lr
        update = [mean - sent for mean, sent in zip(average, broadcast, strict=True)]  # D
        before = self.state.velocity or [np.zeros_like(array) for array in update]
        after = [momentum * old + new for old, new in zip(before, update, strict=True)]
        self.state.velocity = after
        carried = after if self.params.nesterov else before
        extra = [
            lr * momentum * kept + (lr - 1) * new for kept, new in zip(carried, update, strict=True)
        ]
        return [plus(mean, more) for mean, more in zip(average, extra, strict=True)]
