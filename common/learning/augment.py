"""Training augmentation on batches of bytes, on their device, from an explicit generator.

Parameters are drawn per sample on the CPU, so that every device uses the same ones. Crop and flip
together are one gather, which keeps the memory format. On one thread it was the fastest of the
measured variants (advanced indexing, unfolded windows, two gathers, rows of pixels, packed pixels,
a loop over the samples).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Augmentation:
    """How a training image is varied; zeros change nothing."""

    pad: int = 0  # black pixels added on each side before a random crop of the original size
    flip: bool = False  # mirror left and right with probability one half
    # The side of a filled square, centred anywhere in the image and clipped at its border.
    cutout: int = 0


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": Augmentation(),
    "crop": Augmentation(pad=4),
    "flip": Augmentation(flip=True),
    "crop-flip": Augmentation(pad=4, flip=True),
    "crop-flip-cutout": Augmentation(pad=4, flip=True, cutout=16),  # VHL for CIFAR-100
}


@dataclass(frozen=True)
class AugmentationDraw:
    """The random parameters of one batch, one entry per sample."""

    top: Tensor  # (batch,) row of the padded image at which the crop begins
    left: Tensor  # (batch,) the same for columns
    flip: Tensor  # (batch,) bool
    hole: Tensor  # (2, batch) row and column of the cutout's centre


def augment(
    images: Tensor,
    augmentation: Augmentation,
    generator: torch.Generator,
    fill: Tensor | None = None,
) -> Tensor:
    """Vary a batch of uint8 images; the result has the memory format of the images.

    `fill` holds the colour of the cutout, one byte per channel; without it the cutout is black.
    VHL sets normalised images to zero, which is the mean colour: pass `mean_bytes`.
    """
    if augmentation == AUGMENTATIONS["none"]:
        return images
    batch, _, height, width = images.shape
    return apply(images, augmentation, draw(augmentation, batch, height, width, generator), fill)


def draw(
    augmentation: Augmentation, batch: int, height: int, width: int, generator: torch.Generator
) -> AugmentationDraw:
    """Draw the parameters of a batch; those that the augmentation does not use stay zero."""
    nothing = torch.zeros(batch, dtype=torch.int64)
    top, left, flip, hole = nothing, nothing, nothing.bool(), nothing.expand(2, batch)
    if augmentation.pad:
        top, left = torch.randint(2 * augmentation.pad + 1, (2, batch), generator=generator)
    if augmentation.flip:
        flip = torch.randint(2, (batch,), generator=generator).bool()
    if augmentation.cutout:
        rows = torch.randint(height, (batch,), generator=generator)
        hole = torch.stack((rows, torch.randint(width, (batch,), generator=generator)))
    return AugmentationDraw(top, left, flip, hole)


def apply(
    images: Tensor, augmentation: Augmentation, drawn: AugmentationDraw, fill: Tensor | None = None
) -> Tensor:
    """Crop and flip as one gather: every output pixel looks up its source in the padded image."""
    batch, channels, height, width = images.shape
    pad = augmentation.pad
    source = _source(drawn, pad, height, width, images.device)
    source = source.view(batch, 1, -1).expand(batch, channels, -1)
    if images.is_contiguous():
        flat = F.pad(images, (pad, pad, pad, pad)).view(batch, channels, -1)
        result = flat.gather(2, source).view(images.shape)
    else:  # the same on a view, so that neither input nor output is reordered in memory
        padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, pad, pad, pad, pad))
        flat = padded.reshape(batch, -1, channels).permute(0, 2, 1)
        pixels = images.new_empty(batch, height, width, channels)
        torch.gather(flat, 2, source, out=pixels.view(batch, -1, channels).permute(0, 2, 1))
        result = pixels.permute(0, 3, 1, 2)
    return cut_out(result, augmentation.cutout, drawn.hole, fill) if augmentation.cutout else result


def _source(
    drawn: AugmentationDraw, pad: int, height: int, width: int, device: torch.device
) -> Tensor:
    """(batch, height, width): the position in the flat padded image from which each pixel comes."""
    columns = torch.arange(width, device=device)
    columns = torch.where(drawn.flip.to(device)[:, None], width - 1 - columns, columns)
    columns = columns + drawn.left.to(device)[:, None]
    rows = (torch.arange(height, device=device) + drawn.top.to(device)[:, None]) * (width + 2 * pad)
    return rows[:, :, None] + columns[:, None, :]


def cut_out(images: Tensor, side: int, hole: Tensor, fill: Tensor | None = None) -> Tensor:
    """Fill a square around each centre, as in the published Cutout.

    Its rows are centre - side/2 to centre + side/2 - 1, and its columns likewise.
    """
    _, channels, height, width = images.shape
    first_row, first_column = hole.to(images.device)[:, :, None] - side // 2  # (batch, 1) each
    rows = torch.arange(height, device=images.device) - first_row  # (batch, height)
    columns = torch.arange(width, device=images.device) - first_column  # (batch, width)
    inside, within = ((values >= 0) & (values < side) for values in (rows, columns))
    mask = inside[:, None, :, None] & within[:, None, None, :]
    colour = images.new_zeros(channels) if fill is None else fill.to(images.device)
    return torch.where(mask, colour.view(1, channels, 1, 1), images)


def mean_bytes(mean: Sequence[float]) -> Tensor:
    """A data set's mean colour as bytes, one per channel."""
    return torch.tensor([round(255 * value) for value in mean], dtype=torch.uint8)
