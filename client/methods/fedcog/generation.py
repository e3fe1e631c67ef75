"""FedCOG's input optimisation.

It makes images that the global model assigns to a label, while the client's own last model
disagrees.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from client.methods.fedcog.canvas import draw_canvases
from client.methods.fedcog.labels import allocate, complement
from client.methods.fedcog.pictures import Frames, draw_pictures
from client.round import LocalRound
from common.learning.augment import AUGMENTATIONS, augment
from common.learning.losses import (
    bernoulli,
    jensen_shannon,
    jensen_shannon_clamped,
    statistics_distance,
)
from common.learning.optimizers import Adam
from common.learning.task import MultiLabel, Task
from common.methods.fedcog import FedCog
from common.models.base import Model
from common.seeds import torch_generator

# Adam's betas by source.
BETAS = {"pixels": (0.5, 0.9), "noise": (0.5, 0.9), "generator": (0.5, 0.999)}


@dataclass(frozen=True)
class Virtual:
    """Generated samples, which never leave their client."""

    images: Tensor  # (samples, channels, height, width), normalised, of any value
    labels: Tensor  # (samples,) class numbers, or (samples, classes) with one 1 per row
    logits: Tensor  # (samples, classes) of the teacher
    loss: float  # L_gen of these images


def synthesise(
    params: FedCog,
    local: LocalRound,
    teacher: Model,
    partner: Model | None,
    purpose: str = "fedcog",
) -> Virtual | None:
    """Generate the samples of one client in one round; None if no loss was finite.

    The result depends only on seed, round, partition and the two models.
    """
    started = time.perf_counter()
    position = () if params.same_images else (local.partition,)
    generator = torch_generator(local.config.seed, purpose, local.number, *position)
    loss_of = GenerationLoss(
        params, teacher, None if params.same_images else partner, local.task, local.classes
    )
    frames = Frames(params) if local.images is not None else None
    labels = torch.split(target_labels(params, local), params.batch or params.samples)
    canvases = draw_canvases(params, local, [len(batch) for batch in labels], generator)
    parts = [
        generate(*pair, loss_of, generator, frames) for pair in zip(canvases, labels, strict=True)
    ]
    virtual = join([part for part in parts if part is not None])
    local.report["seconds.generation"] = (
        local.report.get("seconds.generation", 0.0) + time.perf_counter() - started
    )
    local.report["fedcog.samples"] = 0 if virtual is None else len(virtual.labels)
    if virtual is not None:
        local.report["fedcog.generation_loss"] = virtual.loss
        if frames is not None:
            draw_pictures(local, purpose, virtual.images, virtual.labels, frames)
    return virtual


def target_labels(params: FedCog, local: LocalRound) -> Tensor:
    """Choose the labels, class after class; a multi-label sample has exactly one of them.

    The paper does not say what its generated FLAIR images show.
    """
    lacking = complement(local.data.class_counts)
    uniform = params.labels == "uniform" or params.same_images
    wanted = allocate(params.samples, np.ones_like(lacking) if uniform else lacking)
    # (samples,)
    labels = torch.from_numpy(np.repeat(np.arange(local.classes), wanted)).to(local.device)
    return (
        F.one_hot(labels, local.classes).float() if local.task.name == MultiLabel.name else labels
    )


def join(parts: list[Virtual]) -> Virtual | None:
    """Join parts that were optimised one after the other; the loss is their mean per sample."""
    if len(parts) < 2:
        return parts[0] if parts else None
    sizes = [len(part.labels) for part in parts]
    loss = sum(part.loss * size for part, size in zip(parts, sizes, strict=True)) / sum(sizes)
    images, labels, logits = (
        torch.cat([getattr(part, name) for part in parts])
        for name in ("images", "labels", "logits")
    )
    return Virtual(images, labels, logits, loss)


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

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return L_c + lambda_dis L_dis (eq. 1) + lambda_bn L_bn, and the teacher's logits."""
        with batch_statistics(self.teacher, self.params.lambda_bn > 0) as distances:
            logits = self.teacher(images)[:, : self.classes]  # (samples, classes)
        loss = self.task.loss(logits, labels)
        if self.partner is not None and self.params.lambda_dis:
            loss = loss + self.params.lambda_dis * self.disagreement(
                logits, self.partner(images)[:, : self.classes]
            )
        if distances:
            loss = loss + self.params.lambda_bn * torch.stack(distances).sum()
        return loss, logits.detach()

    def disagreement(self, teacher: Tensor, partner: Tensor) -> Tensor:
        """1 - JS (eq. 2); for multi-label tasks, over the yes or no of every class."""
        if self.task.name == MultiLabel.name:
            teacher, partner = bernoulli(teacher), bernoulli(partner)
        paper = self.params.disagreement == "paper"
        divergence = jensen_shannon if paper else jensen_shannon_clamped
        return 1 - divergence(teacher, partner, self.params.temperature)


def generate(
    canvas: nn.Module,
    labels: Tensor,
    loss_of: GenerationLoss,
    generator: torch.Generator,
    frames: Frames | None = None,
) -> Virtual | None:
    """Return the best images of a canvas in G steps of Adam, with the teacher's logits.

    The result is None if no loss was finite.
    """
    params = loss_of.params
    steps = 0 if params.source == "noise" else params.steps
    optimizer = Adam(canvas.parameters(), lr=params.lr, betas=BETAS[params.source], fused=True)
    best: Virtual | None = None
    for number in range(steps + 1):
        coarse = params.downsample and number < steps // 2
        with torch.set_grad_enabled(number < steps):
            images: Tensor = canvas()
            loss, logits = loss_of(vary(images, params.augment, coarse, generator), labels)
        value = float(loss.detach())
        if not math.isfinite(value):
            break
        if frames is not None:
            frames.keep(number, images, labels)
        if not coarse and (best is None or value < best.loss):
            best = Virtual(images.detach().clone(), labels, logits, value)
        if number < steps:
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    if best is not None and params.augment:  # these logits belong to a crop of the images
        with torch.no_grad():
            best = Virtual(best.images, labels, loss_of(best.images, labels)[1], best.loss)
    return best


def vary(images: Tensor, varied: bool, coarse: bool, generator: torch.Generator) -> Tensor:
    """Show the images to the networks unchanged, at half the resolution, or cropped and flipped.

    Differs from the code: pooled images are enlarged to their old size again, because a network
    that flattens its maps accepts only one size.
    """
    if coarse:
        images = F.interpolate(F.avg_pool2d(images, 2), size=images.shape[2:])
    if varied:  # the border of a crop is the mean colour, which is zero here
        image_format = torch.contiguous_format if images.is_contiguous() else torch.channels_last
        images = augment(images.contiguous(), AUGMENTATIONS["crop-flip"], generator).contiguous(
            memory_format=image_format
        )
    return images


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

    norms = (
        [
            module
            for module in model.modules()
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)
        ]
        if wanted
        else []
    )
    hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
    try:
        yield distances
    finally:
        for hook in hooks:
            hook.remove()
