"""FedSAM on the client: the gradient at the worst point nearby.

Declared in common/methods/fedsam.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.utils import get_total_norm

from fedmirage.client.data import batch_norms
from fedmirage.client.objective import Objective
from fedmirage.client.round import Step
from fedmirage.common.methods.fedsam import FedSam

TINY = 1e-12  # keeps a zero gradient from dividing by zero


class FedSamClient(Objective[FedSam]):
    """Evaluates the loss twice per step."""

    def gradients(self, step: Step, compute: Callable[[], None]) -> None:
        """Compute g at w_i, move up by rho g / ||g||, compute the gradient there, and move back."""
        with frozen_statistics(step.local.model):
            compute()
        moved = [
            (weight, weight.grad) for weight in step.local.trainable() if weight.grad is not None
        ]
        kept = [weight.detach().clone() for weight, _ in moved]
        # One norm over all trainable weights.
        scale = self.params.rho / (get_total_norm([gradient for _, gradient in moved]) + TINY)
        with torch.no_grad():
            for weight, gradient in moved:
                weight.add_(gradient * scale)
        compute()
        with torch.no_grad():
            for (weight, _), value in zip(moved, kept, strict=True):
                weight.copy_(value)


@contextmanager
def frozen_statistics(model: nn.Module) -> Iterator[None]:
    """BatchNorm still normalises by the batch, but its running statistics stay as they are."""
    norms = batch_norms(model)
    before = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, tracked in zip(norms, before, strict=True):
            norm.track_running_stats = tracked
