"""The network of the synthesis as a function of one flat vector of weights, and its gradient.

`Student` leaves both derivatives to autograd and takes any network. The files beside this one have
two kinds that take one form of network each and compute the same by hand.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call


class Student:
    """A network as a function of its trainable weights, given as one flat vector.

    Its buffers are cloned for every pass.
    """

    def __init__(self, model: nn.Module, classes: int) -> None:
        self.model, self.classes = deepcopy(model).train(), classes
        # name -> shape, in the order of the flat vector
        self.shapes = {name: weight.shape for name, weight in self.model.named_parameters()}

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
        logits = self(weights, images)
        errors = (F.softmax(logits, dim=1) - F.softmax(labels, dim=1)) / logits.numel()
        (gradient,) = torch.autograd.grad(logits, weights, errors, create_graph=create_graph)
        return gradient


def cut(weights: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """View the parts of a flat vector in their shapes."""
    parts = torch.split(weights, [shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
