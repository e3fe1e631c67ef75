"""Shapes: elastic transformations and coarse pixels."""

import torch
from torch import Tensor

from fedmirage.common.data.derived.resample import blur, positions, sample, uniform


def elastic_transform(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Move three points of the picture, and all others with them; then warp it smoothly.

    From one severity to the next the points move less and the warp becomes finer. The first one
    has no warp.
    """
    strength, sigma, jitter = (
        (0.0, 0.0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    )[severity - 1]
    side = images.shape[-1]
    images = _move_points(images, jitter * side, generator)
    field = uniform(len(images), -1, 1, generator, 2, side, side)
    field = blur(field, sigma * side, truncate=3.0, border="reflect") * strength * side
    rows, columns = positions(side, side)
    return sample(images, rows + field[:, 1], columns + field[:, 0], "edge")


def _move_points(images: Tensor, jitter: float, generator: torch.Generator) -> Tensor:
    """Apply the affine map that moves three points of a square by up to `jitter` pixels."""
    side = images.shape[-1]
    middle, half = float(side // 2), float(side // 3)
    low, high = middle - half, middle + half
    before = torch.tensor(((high, high), (high, low), (low, low)), dtype=images.dtype)  # x, y
    after = before + uniform(len(images), -jitter, jitter, generator, 3, 2)
    # A pixel of the new picture shows the place from which it was moved: the map back.
    ones = torch.ones(len(images), 3, 1, dtype=images.dtype)
    back = torch.linalg.solve(torch.cat((after, ones), dim=2), before.expand(len(images), 3, 2))
    rows, columns = positions(side, side)
    places = torch.stack((columns, rows, torch.ones_like(rows)), dim=-1).view(1, -1, 3) @ back
    x, y = places.view(len(images), side, side, 2).unbind(dim=-1)
    return sample(images, y, x, "centre")


def pixelate(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Shrink the picture and enlarge it again with Pillow's box filter, which has no half steps."""
    side = images.shape[-1]
    small = int(side * (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1])
    for source, target in ((side, small), (small, side)):
        weights = _box_weights(source, target).to(images.dtype)
        images = _whole(_whole(images @ weights.T).mT @ weights.T).mT
    return images


def _box_weights(source: int, target: int) -> Tensor:
    """Return the share (target, source) of every old pixel in every new one.

    Pixels whose centre lies in the box of a new one count equally, all others not at all.
    """
    scale = source / target
    centres = (torch.arange(target, dtype=torch.float64)[:, None] + 0.5) * scale
    distance = (torch.arange(source, dtype=torch.float64) + 0.5 - centres) / max(scale, 1.0)
    inside = ((distance > -0.5) & (distance <= 0.5)).double()
    return inside / inside.sum(dim=1, keepdim=True)


def _whole(images: Tensor) -> Tensor:
    """Round to the nearest of 256 shades, as between two steps on bytes."""
    return torch.floor(images * 255 + 0.5 + 1e-9) / 255
