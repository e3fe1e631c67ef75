"""Digits in five styles, each a domain, made from grey pictures of digits.

Every picture belongs to one domain, and to the training or the test split, before anything is done
to it. So no picture occurs twice, however it was changed.
"""

import numpy as np
import torch
from torch import Tensor

from fedmirage.common.data.catalogue.cards import DIGIT_STYLES
from fedmirage.common.data.derived.glyphs import render
from fedmirage.common.data.derived.resample import blur, positions, sample, smooth_field
from fedmirage.common.data.derived.textures import colour_patches, grey_surfaces
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit
from fedmirage.common.data.partitions.counts import split_evenly
from fedmirage.common.seeds import numpy_generator, torch_generator

CLASSES = 10
WARP = 0.1  # how far the warp moves a pixel at most, in sides of the picture
BLUR = 0.05  # standard deviation of the blur, in sides of the picture


def make_domains(base: Raw, seed: int, channels: int | None) -> Raw:
    """Make a set with the column "domain" from a set of grey digits with both splits."""
    form = PictureForm(channels=channels)
    return base.change(lambda part, purpose: _make_split(part, seed, purpose, form))


def _make_split(base: RawSplit, seed: int, purpose: str, form: PictureForm) -> RawSplit:
    """Make one split; the rendered domain, which uses no picture, is as large as the others."""
    labels, size = base.labels.astype(np.int64), base.images.shape[-1]
    used = [style for style in DIGIT_STYLES if style != "rendered"]
    given = split_evenly(labels, len(used), numpy_generator(seed, "digit-styles", purpose))
    shares = dict(zip(used, given, strict=True))
    images, numbers = [], []
    for style in DIGIT_STYLES:
        generator = torch_generator(seed, "digit-styles", purpose, style)
        if style == "rendered":
            wanted = torch.randperm(len(labels) // len(used), generator=generator) % CLASSES
            made = render(wanted, size, generator)
        else:
            wanted = torch.from_numpy(labels[shares[style]])
            digits = torch.from_numpy(base.images[shares[style]]).double() / 255
            made = _change(style, digits, generator)
        images.append(arrange(to_bytes(made), form))
        numbers.append(wanted.numpy())
    domain = np.repeat(np.arange(len(numbers)), [len(part) for part in numbers])
    return RawSplit(np.concatenate(images), np.concatenate(numbers), {"domain": domain})


def _change(style: str, digits: Tensor, generator: torch.Generator) -> Tensor:
    """Return digits, (samples, 1, size, size) in [0, 1], in their new style with three channels."""
    count, size = len(digits), digits.shape[-1]
    match style:
        case "inverted":  # dark on a bright surface
            digits = grey_surfaces(count, size, generator) * (1 - digits)
        case "blended":  # as MNIST-M: the difference of patch and digit, colour by colour
            digits = (colour_patches(count, size, generator) - digits).abs()
        case "warped":
            digits = blur(_warp(digits, generator), BLUR * size)
    return digits.expand(-1, 3, -1, -1)


def _warp(digits: Tensor, generator: torch.Generator) -> Tensor:
    """Move every pixel by a smooth random field, as if the picture were of rubber."""
    count, size = len(digits), digits.shape[-1]
    field = (2 * smooth_field(count, 2, 4, size, generator) - 1) * WARP * size
    rows, columns = positions(size, size)
    return sample(digits, rows + field[:, 0], columns + field[:, 1])


def to_bytes(images: Tensor) -> Images:
    """Round values in [0, 1] to bytes."""
    return images.clamp(0, 1).mul(255).round().to(torch.uint8).numpy()
