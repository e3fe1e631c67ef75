"""FedCOG's input optimisation.

It makes images that the global model assigns to a label, while the client's own last model
disagrees.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedmirage.client.methods.fedcog.canvas import draw_canvases
from fedmirage.client.methods.fedcog.labels import allocate, complement
from fedmirage.client.methods.fedcog.loss import GenerationLoss
from fedmirage.client.methods.fedcog.saving import Frames, draw_pictures
from fedmirage.client.round import LocalRound
from fedmirage.common.learning.augment import AUGMENTATIONS, augment
from fedmirage.common.learning.optimizers import Adam
from fedmirage.common.learning.task import MultiLabel
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import Model
from fedmirage.common.seeds import torch_generator

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
    keep_freed_memory()
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


def keep_freed_memory() -> None:
    """Let a step find the memory that the last one freed.

    glibc returns what is free beyond twice the largest block that it ever unmapped, and new pages
    cost up to a tenth of a step. This block is unmapped at once, and never touched.
    """
    torch.empty(2**24, dtype=torch.uint8)


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
    best: BestImages | None = None
    for number in range(steps + 1):
        coarse = params.downsample and number < steps // 2
        images: Tensor = canvas()
        shown = vary(images, params.augment, coarse, generator)
        if number < steps:
            loss, gradient = loss_of.differentiate(shown, labels)
        else:
            loss = loss_of.evaluate(shown, labels)
        if frames is not None:
            frames.keep(number, images, labels)
        best = best or BestImages(images)
        best.compare(images, loss, eligible=not coarse)
        if number < steps:
            optimizer.zero_grad(set_to_none=True)
            shown.backward(gradient)  # type: ignore[no-untyped-call]
            optimizer.step()
    assert best is not None, "there is at least one step"
    return best.finish(labels, loss_of)


class BestImages:
    """The images of the lowest loss until one is not finite, kept without waiting for a device."""

    def __init__(self, images: Tensor) -> None:
        self.images = images.detach().clone()
        self.loss = torch.tensor(math.inf, device=images.device)
        self.finite = torch.tensor(True, device=images.device)  # whether all losses were

    def compare(self, images: Tensor, loss: Tensor, eligible: bool) -> None:
        """Take these if they are better."""
        self.finite = self.finite & loss.isfinite()
        if eligible:
            better = self.finite & (loss < self.loss)
            self.images = torch.where(better, images.detach(), self.images)
            self.loss = torch.where(better, loss, self.loss)

    @torch.no_grad()
    def finish(self, labels: Tensor, loss_of: GenerationLoss) -> Virtual | None:
        """Return them with the teacher's logits, or None if there are none."""
        loss = float(self.loss)
        if math.isinf(loss):
            return None
        logits = loss_of.teacher(self.images)[:, : loss_of.classes]  # (samples, classes)
        return Virtual(self.images, labels, logits, loss)


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
