"""Distil on the client: prepares its virtual images, and trains on nothing else.

Declared in common/methods/distil. A client's virtual set is made before its first round, in turns,
and read in every round. It starts from noise, statistics or real images; `plan_counts` says how
many images each class gets.
"""

import math
import time
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedmirage.client.methods.distil.cache import CacheFile
from fedmirage.client.methods.distil.matching import Matching, RealImages, match_distributions
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalClient, LocalRound
from fedmirage.common.device import place
from fedmirage.common.errors import FedmirageError
from fedmirage.common.image_grid import draw_classes
from fedmirage.common.methods.distil import Distil
from fedmirage.common.methods.distil.declaration import Distilling
from fedmirage.common.models.factory import build
from fedmirage.common.seeds import derive, torch_generator
from fedmirage.common.wire.preparation import Preparation

Counts = npt.NDArray[np.int64]  # (classes,)


class DistilClient(Objective[Distil]):
    """The images are made before the first round, and stay as they are."""

    def prepare_client(self, local: LocalClient, until: float) -> Preparation:
        """Learn the virtual images, turn by turn."""
        return prepare_virtual_set(self.params, local, until)

    def begin(self, local: LocalRound) -> None:
        """Replace the client's data by its virtual images."""
        virtual = virtual_set(self.params, local)
        local.data.replace(virtual.images, virtual.labels)
        if math.isfinite(virtual.loss):
            local.report["distil.loss"] = virtual.loss
        if local.images is not None:
            draw_virtual_set(
                local, virtual, local.images / f"client-{local.partition:05d}-distil.png"
            )


def plan_counts(params: Distilling, real: Counts) -> Counts:
    """The number of virtual images per class: none if it has too few real ones, and never more."""
    return np.where(real < params.min_real_per_class, 0, np.minimum(real, params.per_class))


def explain_counts(params: Distilling, real: Counts) -> list[str]:
    """Say how many classes are left out or get fewer images; absent classes need no word.

    The sentences go to the server, so they name no class.
    """
    least, wanted = params.min_real_per_class, params.per_class
    left_out = int(((real > 0) & (real < least)).sum())
    fewer = int(((real >= least) & (real < wanted)).sum())
    sentences = []
    if left_out:
        sentences.append(
            f"{params.name} leaves out {left_out} of the classes: fewer than"
            f" min_real_per_class={least} real images, which virtual ones could copy"
        )
    if fewer:
        sentences.append(
            f"{params.name} makes fewer than per_class={wanted} virtual images of {fewer} of the"
            " classes, which have fewer real ones"
        )
    return sentences


def draw_start(
    params: Distilling, real: RealImages, counts: Counts, seed: int, partition: int
) -> tuple[Tensor, Tensor]:
    """Draw the first pixels: images (samples, channels, height, width), labels (samples,).

    They come class after class. Every class has a generator of its own, so that its images do not
    depend on which other classes the client has.
    """
    images = []
    for label in np.flatnonzero(counts).tolist():
        generator = torch_generator(seed, "distil.start", partition, label)
        wanted = int(counts[label])
        if params.start == "real":
            images.append(real.draw(label, wanted, generator))
            continue
        noise = torch.randn(wanted, *real.shape, generator=generator).to(real.device)
        if params.start == "class_stats":
            mean, std = class_statistics(real.all(label))  # (channels,) each
            each = (1, -1, *[1] * (noise.ndim - 2))
            noise = noise * std.view(each) + mean.view(each)
        images.append(noise)
    labels = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(real.device)
    return torch.cat(images).contiguous(memory_format=real.memory_format), labels


def class_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per channel, over all pixels of all images of one class."""
    std, mean = torch.std_mean(images, dim=(0, *range(2, images.ndim)), correction=0)
    return mean, std


def virtual_set(params: Distilling, local: LocalClient) -> Matching:
    """Read the finished virtual set of this client; `prepare_virtual_set` has made it before."""
    matching = CacheFile.of(params, local).load(local.device, local.run.memory_format)
    if matching is None or matching.step < params.steps:
        raise FedmirageError(
            f"the virtual images of {params.name} are not finished or were deleted; they are made"
            " before the next round"
        )
    return matching


def draw_virtual_set(local: LocalClient, virtual: Matching, path: Path) -> None:
    """Write a picture of all classes; one that is there already shows the same."""
    if not path.exists():
        data, shown = local.run.dataset, (virtual.images, virtual.labels)
        draw_classes(*shown, data.classes, data.mean, data.std, path, most=local.classes)


def prepare_virtual_set(params: Distilling, local: LocalClient, until: float) -> Preparation:
    """Work on the virtual set until time.monotonic() reaches `until`, and save what was done.

    However the work is cut into turns, and in whichever process a turn runs, the images are the
    same.
    """
    started = time.perf_counter()
    entry, real = CacheFile.of(params, local), RealImages.of(local)
    matching = entry.load(local.device, local.run.memory_format)
    worked = matching is None or matching.step < params.steps
    if matching is None:
        matching = begin_matching(params, local, real)
    if worked:
        draws = partial(build_extractor, local), partial(step_generator, local)
        match_distributions(matching, real, params, *draws, params.steps, until)
        entry.save(matching)
    notes = explain_counts(params, local.data.real_class_counts)
    if matching.setbacks:
        notes.append(
            f"{params.name} undid {matching.setbacks} steps whose pixels were not finite; the"
            f" learning rate of the pixels ended at {matching.lr:g}"
        )
    share = matching.step / params.steps if params.steps else 1.0
    seconds = time.perf_counter() - started if worked else 0.0
    return Preparation(share, tuple(notes), seconds)


def begin_matching(params: Distilling, local: LocalClient, real: RealImages) -> Matching:
    """Draw the first pixels."""
    counts = plan_counts(params, local.data.real_class_counts)
    if not counts.any():
        raise FedmirageError(
            f"{params.name} finds no class with min_real_per_class={params.min_real_per_class} real"
            " images on this client; give it more data, or lower min_real_per_class"
        )
    images, labels = draw_start(params, real, counts, local.config.seed, local.partition)
    return Matching.begin(images, labels, params.pixel_lr)


def build_extractor(local: LocalClient, step: int) -> nn.Module:
    """Build the run's own network afresh, with random weights for one step, and frozen."""
    run = local.run
    seed = derive(local.config.seed, "distil.extractor", local.partition, step)
    network = build(local.config.model_params, run.shape, run.classes, 0, seed)
    return place(network, local.device, local.config).eval().requires_grad_(False).features


def step_generator(local: LocalClient, step: int) -> torch.Generator:
    """Make the generator that draws the real images and the changes of one step."""
    return torch_generator(local.config.seed, "distil.step", local.partition, step)
