"""What FedAdam, FedYogi and FedAdagrad have in common: all but the second moment.

See Reddi et al., Algorithm 2.
"""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from fedmirage.common.methods._adaptive import AdaptiveMethod
from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.server.strategy.rule import ServerRule

A = TypeVar("A", bound=AdaptiveMethod)


@dataclass
class AdaptiveState:
    """What outlives a round: one array per trainable weight; empty before the first round."""

    first: Arrays = field(default_factory=list)  # m in the paper, which begins at zero
    second: Arrays = field(default_factory=list)  # v in the paper, which begins at tau^2


class AdaptiveRule(ServerRule[A]):
    """w <- w + lr m / (sqrt(v) + tau). A subclass says how v moves."""

    state: AdaptiveState
    state_type = AdaptiveState

    def second_moment(self, before: Array, squared: Array) -> Array:
        """The new v, given the old one and D^2."""
        raise NotImplementedError

    def step(self, broadcast: Arrays, average: Arrays) -> Arrays:
        """Make one step; the paper has no bias correction, but lets v begin at tau^2 instead."""
        lr, beta1, tau = self.params.lr, self.params.beta1, self.params.tau
        update = [mean - sent for mean, sent in zip(average, broadcast, strict=True)]  # D
        first = self.state.first or [np.zeros_like(array) for array in update]
        second = self.state.second or [np.full_like(array, tau**2) for array in update]
        self.state.first = [
            beta1 * old + (1 - beta1) * new for old, new in zip(first, update, strict=True)
        ]
        self.state.second = [
            self.second_moment(old, new * new) for old, new in zip(second, update, strict=True)
        ]
        moments = zip(broadcast, self.state.first, self.state.second, strict=True)
        return [sent + lr * m / (np.sqrt(v) + tau) for sent, m, v in moments]
