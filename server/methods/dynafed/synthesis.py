"""Learning a data set that moves a network along a given path: DynaFed's algorithm 1.

`inner_step` is one SGD step on the set, `matching_gradients` the distance of one outer iteration
and its derivatives, `synthesise` the loop.
Only the set and the inner learning rate are learned.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedmirage.common.data.batches import batches
from fedmirage.common.learning.diffaugment import Draw, apply, draw
from fedmirage.common.learning.losses import cosine_ratio, squared_ratio
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.server.methods.dynafed.student import Student
from fedmirage.server.methods.dynafed.trajectory import Segments

DISTANCES = {"squared": squared_ratio, "cosine": cosine_ratio}
SMALLEST_RATE = 1e-6
PATIENCE = 10  # failures in a row before the rate is halved
WINDOW = 100  # the number of last losses whose mean decides whether the set is good enough
SGD_MOMENTUM = 0.5


@dataclass
class Learned:
    """What a synthesis learns."""

    images: Tensor  # X: (samples, channels, height, width), normalised as a model sees them
    labels: Tensor  # Y: (samples, classes) logits
    rate: Tensor  # eta: the inner learning rate, a scalar

    @classmethod
    def blank(
        cls, params: DynaFed, shape: Sequence[int], classes: int, generator: torch.Generator
    ) -> "Learned":
        """Start from noise and uniform labels: no image has a class yet."""
        samples = params.per_class * classes
        return cls(
            torch.randn(samples, *shape, generator=generator),
            torch.zeros(samples, classes),
            torch.tensor(params.rate),
        )

    def tensors(self) -> list[Tensor]:
        """The three tensors, in the order of the optimiser's groups."""
        return [self.images, self.labels, self.rate]

    def copy(self) -> "Learned":
        """Copy the values, detached from any graph."""
        return Learned(*(tensor.detach().clone() for tensor in self.tensors()))


@dataclass
class Synthesis:
    """The state of a synthesis, and finally its result."""

    learned: Learned
    losses: list[float] = field(default_factory=list)  # one per iteration with finite values
    failures: int = 0  # iterations with values that were not finite

    @property
    def loss(self) -> float:
        """The mean of the last losses; infinite if there are none."""
        return statistics.fmean(self.losses[-WINDOW:]) if self.losses else math.inf


@dataclass(frozen=True)
class InnerStep:
    """The random choices of an inner step, drawn in advance so that it can be computed twice."""

    index: Tensor | None  # the samples; None means all of them
    view: Draw | None  # how the images are augmented


def plans(params: DynaFed, samples: int, generator: torch.Generator) -> Iterator[InnerStep]:
    """Draw the random choices of the s' steps of one iteration."""
    if params.syn_batch is None or params.syn_batch >= samples:
        chosen: list[Tensor | None] = [None] * params.steps
    else:
        chosen = list(batches(samples, generator, params.syn_batch, steps=params.steps))
    for index in chosen:
        size = samples if index is None else len(index)
        yield InnerStep(index, draw(size, generator) if params.augment else None)


def inner_step(
    student: Student, weights: Tensor, learned: Learned, plan: InnerStep, create_graph: bool = True
) -> Tensor:
    """w - eta grad_w l(f(A(X); w), Y), in a form that can be differentiated once more."""
    images, labels = learned.images, learned.labels
    if plan.index is not None:
        images, labels = (
            tensor.index_select(0, plan.index.to(tensor.device)) for tensor in (images, labels)
        )
    if plan.view is not None:
        images = apply(images, plan.view)
    gradient = student.gradient(weights, images, labels, create_graph)
    return Descent.apply(weights, learned.rate, gradient)  # type: ignore[no-any-return,no-untyped-call]


class Descent(torch.autograd.Function):
    """w - eta g, with fewer passes over all weights than autograd makes, forward and backward."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, rate: Tensor, gradient: Tensor) -> Tensor:
        """Move the weights in one pass."""
        ctx.save_for_backward(rate, gradient)
        return torch.addcmul(weights, rate, gradient, value=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by w, eta and g."""
        rate, gradient = ctx.saved_tensors
        return change, -torch.dot(change, gradient), change * -rate


Measure = Callable[[Tensor, Tensor, Tensor], Tensor]  # (end, target, start) -> distance
Segment = tuple[Tensor, Tensor]  # (start, target)
InnerSteps = Sequence[InnerStep]


def matching_gradients(
    student: Student, segment: Segment, measure: Measure, learned: Learned, steps: InnerSteps
) -> tuple[Tensor, list[Tensor]]:
    """Compute the distance after the inner steps, and its derivatives by X, Y and eta.

    All steps are in memory at once.
    """
    start, target = segment
    weights = start.clone().requires_grad_()
    for plan in steps:
        weights = inner_step(student, weights, learned, plan)
    loss = measure(weights, target, start)
    return loss.detach(), list(torch.autograd.grad(loss, learned.tensors()))


def recomputed_gradients(
    student: Student, segment: Segment, measure: Measure, learned: Learned, steps: InnerSteps
) -> tuple[Tensor, list[Tensor]]:
    """Compute the same with only one inner step in memory.

    The forward pass keeps only the weights; the backward pass computes every step again.
    """
    start, target = segment
    path = [start]
    for plan in steps:
        before = path[-1].detach().requires_grad_()
        path.append(inner_step(student, before, learned, plan, create_graph=False).detach())
    end = path.pop().requires_grad_()
    loss = measure(end, target, start)
    (adjoint,) = torch.autograd.grad(loss, end)  # dd/dw_j, from the last step to the first
    totals = [torch.zeros_like(tensor) for tensor in learned.tensors()]
    for before, plan in zip(reversed(path), reversed(steps), strict=True):
        weights = before.detach().requires_grad_()
        after = inner_step(student, weights, learned, plan)
        adjoint, *parts = torch.autograd.grad(after, [weights, *learned.tensors()], adjoint)
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return loss.detach(), totals


def synthesise(
    params: DynaFed,
    student: Student,
    segments: Segments,
    blank: Learned,
    generator: torch.Generator,
    watch: Callable[[int, Synthesis], None] = lambda iteration, synthesis: None,
) -> Synthesis:
    """Run algorithm 1.

    If a loss or gradient is not finite, the step that led there is undone; ten such failures in a
    row halve eta and reset Adam's moments.
    """
    derive = recomputed_gradients if params.recompute else matching_gradients
    synthesis, good, in_a_row = Synthesis(blank.copy()), blank.copy(), 0
    optimizer = make_optimizer(params, synthesis.learned)
    for iteration in range(params.iterations):
        watch(iteration, synthesis)
        segment = segments.draw(params, generator)
        if segment is None:  # all checkpoints are the same
            break
        steps = list(plans(params, len(blank.images), generator))
        loss, gradients = derive(
            student, segment, DISTANCES[params.distance], synthesis.learned, steps
        )
        if all(bool(value.isfinite().all()) for value in (loss, *gradients)):
            good, in_a_row = synthesis.learned.copy(), 0
            synthesis.losses.append(float(loss))
            update(optimizer, synthesis.learned, gradients)
            continue
        synthesis.failures, in_a_row = synthesis.failures + 1, in_a_row + 1
        restore(synthesis.learned, good)
        if in_a_row % PATIENCE == 0:
            good.rate.mul_(0.5).clamp_(min=SMALLEST_RATE)
            restore(synthesis.learned, good)
            optimizer = make_optimizer(params, synthesis.learned)
    if not all(bool(tensor.isfinite().all()) for tensor in synthesis.learned.tensors()):
        restore(synthesis.learned, good)
    synthesis.learned = synthesis.learned.copy()
    watch(params.iterations, synthesis)
    return synthesis


def make_optimizer(params: DynaFed, learned: Learned) -> torch.optim.Optimizer:
    """Make the optimiser of X, Y and eta, each with its own learning rate."""
    rates = (params.lr_images, params.lr_labels, params.lr_rate)
    groups = [
        {"params": [tensor.requires_grad_()], "lr": lr}
        for tensor, lr in zip(learned.tensors(), rates, strict=True)
    ]
    return (
        torch.optim.Adam(groups)
        if params.optimizer == "adam"
        else torch.optim.SGD(groups, momentum=SGD_MOMENTUM)
    )


def update(optimizer: torch.optim.Optimizer, learned: Learned, gradients: Sequence[Tensor]) -> None:
    """Make one step that keeps eta positive."""
    for tensor, gradient in zip(learned.tensors(), gradients, strict=True):
        tensor.grad = gradient
    optimizer.step()
    with torch.no_grad():
        learned.rate.clamp_(min=SMALLEST_RATE)


@torch.no_grad()
def restore(learned: Learned, good: Learned) -> None:
    """Go back to the last values that gave a finite loss."""
    for tensor, value in zip(learned.tensors(), good.tensors(), strict=True):
        tensor.copy_(value)
