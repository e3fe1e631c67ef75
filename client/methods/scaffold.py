"""SCAFFOLD on the client: the linear term, and the new control variate.

Declared in common/methods/scaffold.py.
"""

import torch
from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.learning.losses import inner_product
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.methods.scaffold import CONTROL, CONTROL_DELTA, Scaffold
from fedmirage.common.wire.manifest import arrays_of, tensors_like
from fedmirage.common.wire.payload import Sections

REMEMBERED = "scaffold.control"  # c_i


class ScaffoldClient(Objective[Scaffold]):
    """Holds the client's control variate and the correction for the length of a round."""

    own: list[Tensor]  # c_i
    correction: list[Tensor]  # c - c_i

    def begin(self, local: LocalRound) -> None:
        """Restore c_i, which option II keeps between visits; on the first one it is zero."""
        self.own = local.restore(REMEMBERED)
        common = tensors_like(local.received[CONTROL], self.own)  # c
        self.correction = [server - own for server, own in zip(common, self.own, strict=True)]

    def terms(self, step: Step) -> dict[str, Tensor]:
        """<c - c_i, w_i>, whose gradient is c - c_i; its value has no meaning."""
        return {"control": inner_product(step.local.trainable(), self.correction)}

    @torch.no_grad()
    def end(self, local: LocalRound) -> Sections:
        """c_i+ = (w - w_i) / (a eta) - (c - c_i); a client that made no step keeps c_i."""
        new = self.own
        if local.steps:
            scale = local.lr * effective_steps(local.steps, local.config.momentum)
            pairs = zip(local.reference.values(), local.trainable(), self.correction, strict=True)
            new = [(start - weight) / scale - correction for start, weight, correction in pairs]
        local.memory.put(REMEMBERED, arrays_of(new))
        changes = [after - before for after, before in zip(new, self.own, strict=True)]
        return {CONTROL_DELTA: arrays_of(changes)}
