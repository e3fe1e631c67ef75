"""Batched geometry of pictures: values between pixels, Gaussian blur, smooth random fields."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

# What lies beyond the border: nothing, the picture mirrored at the edge of its outermost pixels
# (b a | a b), or mirrored at their centres (b | a b).
Border = Literal["zero", "edge", "centre"]


def sample(images: Tensor, rows: Tensor, columns: Tensor, border: Border = "zero") -> Tensor:
    """Return the bilinear values at positions that are counted in pixels.

    images: (samples, channels, height, width); rows and columns: (samples, new height, new width).
    """
    height, width = images.shape[2:]
    # grid_sample counts from -1 to 1: between the outermost centres, or between the outer edges
    if border == "centre":
        x, y = 2 * columns / (width - 1) - 1, 2 * rows / (height - 1) - 1
    else:
        x, y = (2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1
    return F.grid_sample(
        images,
        torch.stack((x, y), dim=-1),
        mode="bilinear",
        padding_mode="zeros" if border == "zero" else "reflection",
        align_corners=border == "centre",
    )


def positions(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the row and the column of every pixel, both (height, width)."""
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=torch.float64),
        torch.arange(width, dtype=torch.float64),
        indexing="ij",
    )
    return rows, columns


def gaussian_weights(sigma: float, truncate: float = 4.0) -> Tensor:
    """Return the normalised weights of a Gaussian, cut off at `truncate` standard deviations."""
    radius = int(truncate * sigma + 0.5)
    steps = torch.arange(-radius, radius + 1, dtype=torch.float64)
    weights = torch.exp(-(steps**2) / (2 * sigma**2)) if sigma > 0 else torch.ones_like(steps)
    return weights / weights.sum()


def blur(
    images: Tensor,
    sigma: float,
    truncate: float = 4.0,
    border: Literal["replicate", "reflect"] = "replicate",
) -> Tensor:
    """Blur by a Gaussian, along rows and then along columns.

    Beyond the border the outermost pixel is repeated, or the picture is mirrored at its edge.
    """
    weights = gaussian_weights(sigma, truncate)
    radius, channels = len(weights) // 2, images.shape[1]
    if radius == 0:
        return images
    for axis in (2, 3):
        padded = pad(images, radius, axis, border)
        shape = (len(weights), 1) if axis == 2 else (1, len(weights))
        kernel = weights.view(1, 1, *shape).expand(channels, 1, *shape)
        images = F.conv2d(padded, kernel, groups=channels)
    return images


def pad(images: Tensor, radius: int, axis: int, border: Literal["replicate", "reflect"]) -> Tensor:
    """Widen one axis on both sides; the radius may be larger than the picture."""
    side = images.shape[axis]
    places = torch.arange(-radius, side + radius)
    if border == "replicate":
        places = places.clamp(0, side - 1)
    else:
        places = places % (2 * side)
        places = torch.where(places < side, places, 2 * side - 1 - places)
    return images.index_select(axis, places)


def smooth_field(
    count: int, channels: int, cells: int, size: int, generator: torch.Generator
) -> Tensor:
    """Draw fields in [0, 1] that vary smoothly: random values on a coarse grid, interpolated."""
    coarse = torch.rand(count, channels, cells, cells, generator=generator, dtype=torch.float64)
    fine = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=True)
    return fine.clamp(0, 1)


def uniform(count: int, low: float, high: float, generator: torch.Generator, *shape: int) -> Tensor:
    """Draw numbers between two bounds: (count, *shape)."""
    drawn = torch.rand(count, *shape, generator=generator, dtype=torch.float64)
    return low + (high - low) * drawn


def turn(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """Return sine and cosine of angles in degrees, ready to be multiplied with pictures."""
    angle = degrees.view(-1, 1, 1) * (math.pi / 180)
    return torch.sin(angle), torch.cos(angle)
