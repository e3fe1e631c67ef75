"""The network of the synthesis as a function of one flat vector of weights, and its gradient."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedmirage.server.methods.dynafed.by_hand import gradient_by_hand
from fedmirage.server.methods.dynafed.trajectory import cut


class Student:
    """A network as a function of its trainable weights, given as one flat vector.

    Its buffers are cloned for every pass.
    """

    def __init__(self, model: nn.Module, classes: int, by_hand: bool = True) -> None:
        self.model, self.classes = deepcopy(model).train(), classes
        weights = dict(self.model.named_parameters())
        moved = {name: weight for name, weight in weights.items() if weight.requires_grad}
        # name -> shape, in the order of the flat vector
        self.shapes = {name: weight.shape for name, weight in moved.items()}
        # 1.65 times as fast as autograd for a ConvNet; any other network has None.
        whole = by_hand and len(moved) == len(weights)
        self.by_hand = gradient_by_hand(self.model, classes) if whole else None

    def __call__(self, weights: Tensor, images: Tensor) -> Tensor:
        """(batch, classes) logits."""
        entries = dict(zip(self.shapes, cut(weights, list(self.shapes.values())), strict=True))
        entries |= {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        logits: Tensor = functional_call(self.model, entries, images)
        return logits[:, : self.classes]

    def gradient(
        self, weights: Tensor, images: Tensor, labels: Tensor, create_graph: bool
    ) -> Tensor:
        """The gradient of `soft_cross_entropy` by the weights, which must require one.

        The loss itself is not needed: its gradient by the logits is known.
        """
        targets = F.softmax(labels, dim=1)
        if self.by_hand is not None:
            with torch.set_grad_enabled(create_graph):
                found = self.by_hand(weights, images, targets)
            if found is not None:
                return found
        logits = self(weights, images)
        errors = (F.softmax(logits, dim=1) - targets) / logits.numel()
        (gradient,) = torch.autograd.grad(logits, weights, errors, create_graph=create_graph)
        return gradient
