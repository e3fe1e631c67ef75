"""FedDyn on the client: the two terms of the penalty, and the client's gradient estimate.

Declared in common/methods/feddyn.py.
"""

import torch
from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.learning.losses import inner_product, squared_distance
from fedmirage.common.methods.feddyn import MOVED, FedDyn
from fedmirage.common.wire.manifest import arrays_of
from fedmirage.common.wire.payload import Sections

REMEMBERED = "feddyn.gradient"  # h_i


class FedDynClient(Objective[FedDyn]):
    """Holds the client's gradient estimate for the length of a round."""

    # h_i: after local training has converged, the gradient of the client's own loss at w_i
    gradient: list[Tensor]

    def begin(self, local: LocalRound) -> None:
        """Restore h_i from the last visit; on the first visit of a run it is zero."""
        self.gradient = local.restore(REMEMBERED)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """-<h_i, w_i> and (alpha/2) ||w_i - w||^2."""
        weights, reference = step.local.trainable(), list(step.local.reference.values())
        return {
            "linear": -inner_product(weights, self.gradient),
            "quadratic": self.params.alpha / 2 * squared_distance(weights, reference),
        }

    @torch.no_grad()
    def end(self, local: LocalRound) -> Sections:
        """h_i <- h_i - alpha (w_i - w)."""
        moved = [
            weight - start
            for weight, start in zip(local.trainable(), local.reference.values(), strict=True)
        ]
        new = [
            before - self.params.alpha * step
            for before, step in zip(self.gradient, moved, strict=True)
        ]
        local.memory.put(REMEMBERED, arrays_of(new))
        return {MOVED: arrays_of(moved)}
