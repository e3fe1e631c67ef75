"""Backgrounds that are computed: grey surfaces, and colourful patches in place of photographs."""

import math

import torch
from torch import Tensor

from fedmirage.common.data.derived.resample import positions, smooth_field, turn, uniform


def grey_surfaces(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw bright surfaces: stripes of any direction and width, with stains. (count, 1, size, size)

    Values are between 0.4 and 1, so that a dark digit stays visible everywhere.
    """
    phase = uniform(count, 0, 2 * math.pi, generator).view(-1, 1, 1)
    waves = uniform(count, 2, 5, generator).view(-1, 1, 1)  # per side of the picture
    across = _distance_across(count, size, generator)
    stripes = 0.5 + 0.5 * torch.sin(2 * math.pi * waves * across + phase)
    stains = smooth_field(count, 1, 4, size, generator)
    return 0.4 + 0.6 * (0.45 * stripes[:, None] + 0.55 * stains)


def colour_patches(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw two smoothly coloured areas that meet at a straight edge. (count, 3, size, size)

    They stand for the crops of photographs behind the digits of MNIST-M: strong colours, coarse
    and fine structure, and edges.
    """
    one, other = (_colours(count, size, generator) for _ in range(2))
    offset = uniform(count, -0.3, 0.3, generator).view(-1, 1, 1)
    beyond = _distance_across(count, size, generator) > offset
    return torch.where(beyond[:, None], one, other)


def _colours(count: int, size: int, generator: torch.Generator) -> Tensor:
    base = torch.rand(count, 3, 1, 1, generator=generator, dtype=torch.float64)
    coarse = smooth_field(count, 3, 3, size, generator) - 0.5
    fine = smooth_field(count, 3, max(4, size // 2), size, generator) - 0.5
    return (base + 0.5 * coarse + 0.3 * fine).clamp(0, 1)


def _distance_across(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Return the signed distance of every pixel to a line through the middle, in sides.

    The direction is drawn for each of the (count, size, size).
    """
    rows, columns = positions(size, size)
    sine, cosine = turn(uniform(count, 0, 360, generator))
    middle = (size - 1) / 2
    return ((rows - middle) * sine + (columns - middle) * cosine) / size
