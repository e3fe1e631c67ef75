"""What FedCOG's generated images minimise, and its gradient."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from fedmirage.client.data import batch_norms
from fedmirage.client.methods.fedcog.fast import side_by_side
from fedmirage.common.learning.losses import (
    bernoulli,
    jensen_shannon,
    jensen_shannon_clamped,
    statistics_distance,
)
from fedmirage.common.learning.task import MultiLabel, Task
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import Model

Networks = Callable[[Tensor], Sequence[Tensor]]  # images to the logits of each network
# Images that go through the networks at a time: more of them would not stay in the cache, and with
# fewer, the calls of small kernels would take longer than what they compute.
CHUNK = 256


@dataclass(frozen=True)
class GenerationLoss:
    """L_gen, which the generated images minimise.

    Both networks are frozen; only the images receive gradients.
    """

    params: FedCog
    teacher: Model  # the received global model
    partner: Model | None  # the client's own last model; None on a first visit
    task: Task
    classes: int  # the real ones: outputs that another method added are cut off

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return L_c + lambda_dis L_dis (eq. 1) + lambda_bn L_bn."""
        with batch_statistics(self.teacher, self.params.lambda_bn > 0) as distances:
            # (samples, classes) each
            teacher, *partner = (logits[:, : self.classes] for logits in self.networks(images))
        loss = self.task.loss(teacher, labels)
        if partner:
            loss = loss + self.params.lambda_dis * self.disagreement(teacher, *partner)
        if distances:
            loss = loss + self.params.lambda_bn * torch.stack(distances).sum()
        return loss

    @cached_property
    def networks(self) -> Networks:
        """The teacher and, if it counts, the partner; the statistics are those of the teacher."""
        models = [self.teacher]
        if self.partner is not None and self.params.lambda_dis:
            models.append(self.partner)
        # With simple-cnn 2.0 times as fast on grey images, and 1.5 times on coloured ones.
        joined = side_by_side(models) if self.params.fast and not self.params.lambda_bn else None
        return joined or (lambda images: [model(images) for model in models])

    def disagreement(self, teacher: Tensor, partner: Tensor) -> Tensor:
        """1 - JS (eq. 2); for multi-label tasks, over the yes or no of every class."""
        if self.task.name == MultiLabel.name:
            teacher, partner = bernoulli(teacher), bernoulli(partner)
        paper = self.params.disagreement == "paper"
        divergence = jensen_shannon if paper else jensen_shannon_clamped
        return 1 - divergence(teacher, partner, self.params.temperature)

    def evaluate(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss alone."""
        with torch.no_grad():
            parts = [self(*part) * share for *part, share in self.chunks(images, labels)]
        return torch.stack(parts).sum()

    def differentiate(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its gradient, which is like the images."""
        losses: list[Tensor] = []
        gradients: list[Tensor] = []
        for part, wanted, share in self.chunks(images.detach(), labels):
            leaf = part.requires_grad_()
            loss = self(leaf, wanted) * share
            gradients += torch.autograd.grad(loss, leaf)
            losses.append(loss.detach())
        return torch.stack(losses).sum(), torch.cat(gradients)

    def chunks(self, images: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Yield images, labels, and their share of the whole, of which the loss is the mean.

        BatchNorm's statistics and the clamped divergence are those of all images, and a GPU is the
        faster the more images it gets: these take all at once.
        """
        whole = self.params.lambda_bn or self.params.disagreement == "code" or not images.is_cpu
        size = len(images) if whole else CHUNK
        for part, wanted in zip(torch.split(images, size), torch.split(labels, size), strict=True):
            yield part, wanted, len(wanted) / len(labels)


@contextmanager
def batch_statistics(model: nn.Module, wanted: bool) -> Iterator[list[Tensor]]:
    """Measure how far the input of every BatchNorm layer lies from its running statistics.

    The hooks that do so are removed at the end.
    """
    distances: list[Tensor] = []

    def measure(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        distances.append(statistics_distance(inputs[0], norm.running_mean, norm.running_var))

    norms = batch_norms(model) if wanted else []
    hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
    try:
        yield distances
    finally:
        for hook in hooks:
            hook.remove()
