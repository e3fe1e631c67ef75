"""Federated gradient matching: pixels move until their gradient points where the clients went.

`GradientMatching` is the distance and its derivative by the pixels, `match` the loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedmirage.common.learning.losses import row_distances, squared_distance
from fedmirage.common.learning.task import Task
from fedmirage.common.methods.fedlgd import FedLgd
from fedmirage.common.methods.fedlgd.images import LARGEST

EPS = 1e-6  # in the denominator of every cosine


@dataclass(frozen=True)
class GradientMatching:
    """L_Dist (eq. 5) between the fixed g and the gradient h of the cross-entropy on the images."""

    model: nn.Module  # at theta, in evaluation mode
    target: dict[str, Tensor]  # g, by the names of the weights
    labels: Tensor  # (samples,)
    task: Task
    classes: int  # the real ones: outputs that another method added are cut off
    distance: str

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distance, and its derivative by the pixels (a second derivative)."""
        weights = [self.model.get_parameter(name) for name in self.target]
        loss = self.task.loss(self.model(images)[:, : self.classes], self.labels)
        found = torch.autograd.grad(loss, weights, create_graph=True)
        distance = DISTANCES[self.distance](list(self.target.values()), found)
        (gradient,) = torch.autograd.grad(distance, images)
        return distance.detach(), gradient


def sum_over_rows(target: Sequence[Tensor], found: Sequence[Tensor]) -> Tensor:
    """Sum the distances of all rows; as in the code, biases and scales of norms have none."""
    pairs = zip(target, found, strict=True)
    return torch.cat([row_distances(g, h, EPS) for g, h in pairs if g.ndim > 1]).sum()


def one_cosine(target: Sequence[Tensor], found: Sequence[Tensor]) -> Tensor:
    """1 - cos(g, h) over all weights as one row."""
    g, h = (torch.cat([part.flatten() for part in parts])[None] for parts in (target, found))
    return row_distances(g, h, EPS).sum()


DISTANCES: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]] = {
    "rows": sum_over_rows,
    "squared": squared_distance,
    "cosine": one_cosine,
}


@dataclass
class Matched:
    """The state of a matching, and finally its result."""

    images: Tensor  # the last ones with a finite distance
    losses: list[float] = field(default_factory=list)  # one per step with finite values
    failures: int = 0  # steps that were undone


def match(
    params: FedLgd,
    matching: GradientMatching,
    images: Tensor,
    watch: Callable[[int, Matched], None] = lambda step, matched: None,
) -> Matched:
    """Move the pixels for `global_steps` steps of SGD with momentum; the last distance is measured.

    If a step leads to values that are not finite, or that half precision cannot hold, it is undone,
    and the learning rate is halved from there on.
    """
    matched, rate = Matched(images), params.pixel_lr
    current = images.clone().requires_grad_()
    optimizer = torch.optim.SGD([current], rate, momentum=params.pixel_momentum)
    for step in range(params.global_steps + 1):
        watch(step, matched)
        loss, gradient = matching(current)
        if not is_usable(current, loss, gradient):
            matched.failures, rate = matched.failures + 1, rate / 2
            current = matched.images.clone().requires_grad_()
            optimizer = torch.optim.SGD([current], rate, momentum=params.pixel_momentum)
            continue
        matched.images = current.detach().clone()
        matched.losses.append(float(loss))
        if step < params.global_steps:
            current.grad = gradient
            optimizer.step()
    return matched


def is_usable(images: Tensor, *derived: Tensor) -> bool:
    """Whether everything is finite, and the pixels can be sent in half precision."""
    finite = all(bool(tensor.isfinite().all()) for tensor in (images, *derived))
    return finite and bool(images.detach().abs().max() <= LARGEST)
