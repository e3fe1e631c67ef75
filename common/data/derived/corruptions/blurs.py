"""Blurs: by a Gaussian, a lens out of focus, frosted glass, a moving camera, and a zoom."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.data.derived.resample import blur, uniform


def gaussian_blur(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Blur by a Gaussian."""
    return blur(images, (0.4, 0.6, 0.7, 0.8, 1.0)[severity - 1])


def defocus_blur(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Spread every pixel over a disk, whose edge is softened by a small Gaussian."""
    radius, softness = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))[severity - 1]
    steps = torch.arange(-2, 3, dtype=images.dtype)
    disk = (steps[:, None] ** 2 + steps**2 <= radius**2).to(images.dtype)
    taps = torch.exp(-(torch.arange(-1, 2, dtype=images.dtype) ** 2) / (2 * softness**2))
    soft = torch.outer(taps, taps) / taps.sum() ** 2
    kernel = F.conv2d((disk / disk.sum())[None, None], soft[None, None], padding=1)
    padded = F.pad(images, (2, 2, 2, 2), mode="reflect")
    return F.conv2d(padded, kernel.expand(images.shape[1], -1, -1, -1), groups=images.shape[1])


def glass_blur(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Blur, let pixels take the place of their neighbours, and blur again.

    Differs from the paper, which exchanges two pixels: each takes the value of one that is at most
    one row above and one column to the left, because that is what the authors' program does, whose
    exchange of two views of an array is a copy. Going from the last pixel to the first, it reads
    none that was written before, so that all can be taken at once.
    """
    sigma, times = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
    images = torch.floor(blur(images, sigma) * 255 + 1e-9) / 255
    height, width = images.shape[2:]
    for _ in range(times):
        up, left = torch.randint(0, 2, (2, len(images), height, width), generator=generator)
        up[:, :2], up[:, :, :2], left[:, :2], left[:, :, :2] = 0, 0, 0, 0
        rows = torch.arange(height)[:, None] - up
        columns = torch.arange(width) - left
        images = take(images, rows, columns)
    return blur(images, sigma)


def motion_blur(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Move the camera in a direction of its own for every picture."""
    radius, sigma = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))[severity - 1]
    return streak(images, radius, sigma, uniform(len(images), -45, 45, generator))


def zoom_blur(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Average the picture with enlargements of its middle, in steps of a hundredth."""
    most = (1.06, 1.11, 1.16, 1.21, 1.26)[severity - 1]
    factors = np.arange(1, most, 0.01)  # of which rounding adds a last one to some, as published
    total = images + sum(enlarge(images, float(factor)) for factor in factors)
    return total / (len(factors) + 1)


def streak(images: Tensor, radius: int, sigma: float, degrees: Tensor) -> Tensor:
    """Blur along a line from every pixel, with half a Gaussian as weights, as ImageMagick does.

    Beyond the border, the outermost pixels are repeated.
    """
    length = 2 * radius + 1
    weights = torch.exp(-(torch.arange(length, dtype=images.dtype) ** 2) / (2 * sigma**2))
    angles = degrees.view(-1, 1, 1) * (math.pi / 180)
    height, width = images.shape[2:]
    total = torch.zeros_like(images)
    for step, weight in enumerate(weights / weights.sum()):
        down = torch.ceil(step * torch.sin(angles) - 0.5).long()
        right = torch.ceil(step * torch.cos(angles) - 0.5).long()
        rows = (torch.arange(height)[:, None] + down).clamp(0, height - 1)
        columns = (torch.arange(width) + right).clamp(0, width - 1)
        shape = (len(images), height, width)
        total += weight * take(images, rows.expand(shape), columns.expand(shape))
    return total


def enlarge(images: Tensor, factor: float) -> Tensor:
    """Cut out the middle and enlarge it, bilinearly, to the size of the picture."""
    side = images.shape[-1]
    kept = math.ceil(side / factor)
    first = (side - kept) // 2
    middle = images[:, :, first : first + kept, first : first + kept]
    larger = round(kept * factor)
    middle = F.interpolate(middle, size=(larger, larger), mode="bilinear", align_corners=True)
    surplus = (larger - side) // 2
    return middle[:, :, surplus : surplus + side, surplus : surplus + side]


def take(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels at whole positions, which are (samples, height, width)."""
    places = (rows * images.shape[3] + columns).flatten(1)  # (samples, pixels)
    places = places[:, None].expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, places).view(images.shape)
