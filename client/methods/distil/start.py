"""What the virtual images start from, and how many of them each class gets."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedmirage.client.methods.distil.matching import RealImages
from fedmirage.common.methods.distil.declaration import Distilling
from fedmirage.common.seeds import torch_generator

Counts = npt.NDArray[np.int64]  # (classes,)


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
