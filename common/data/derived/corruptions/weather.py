"""Weather: snow, frost on the lens, fog."""

import torch
from torch import Tensor

from fedmirage.common.data.derived.corruptions.blurs import enlarge, streak
from fedmirage.common.data.derived.resample import smooth_field, uniform

GREY = (0.299, 0.587, 0.114)  # how bright red, green and blue appear
ICE = (0.88, 0.95, 1.0)  # the colour of frost


def snow(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Let flakes fall, in streaks, and whiten the picture.

    Flakes are the highest values of a noise; every streak is shown a second time, upside down.
    """
    mean, deviation, zoom, threshold, radius, sigma, kept = (
        (0.1, 0.2, 1.0, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1.0, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    )[severity - 1]
    count, side = len(images), images.shape[-1]
    flakes = torch.randn(count, 1, side, side, generator=generator, dtype=images.dtype)
    flakes = enlarge(mean + deviation * flakes, zoom)
    flakes = torch.where(flakes < threshold, 0.0, flakes).clamp(0, 1)
    flakes = streak(flakes, radius, sigma, uniform(count, -135, -45, generator))
    grey = (images * torch.tensor(GREY, dtype=images.dtype).view(1, 3, 1, 1)).sum(1, keepdim=True)
    whiter = kept * images + (1 - kept) * torch.maximum(images, 1.5 * grey + 0.5)
    return whiter + flakes + flakes.flip(2, 3)


def frost(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Add crystals of ice to a darkened picture.

    Differs from the paper: the crystals are computed, because the authors' photographs of frozen
    windows are not part of this project.
    """
    kept, added = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    return kept * images + added * _crystals(len(images), images.shape[-1], generator)


def fog(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Add clouds, and scale the result so that the brightest value of the picture stays."""
    strength, decay = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))[severity - 1]
    brightest = images.amax(dim=(1, 2, 3), keepdim=True)
    clouds = plasma(len(images), images.shape[-1], decay, generator)[:, None]
    return (images + strength * clouds) * brightest / (brightest + strength)


def plasma(count: int, side: int, decay: float, generator: torch.Generator) -> Tensor:
    """Draw clouds in [0, 1] by the diamond-square algorithm: (count, side, side).

    Each step fills the middles of squares, then those of diamonds, with the mean of their corners
    and a random addend, which becomes smaller by decay squared from step to step. Borders wrap.
    """
    step = 1 << (side - 1).bit_length()  # the next power of two
    field = torch.zeros(count, step, step, dtype=torch.float64)
    wibble = 100.0

    def average(corners: Tensor) -> Tensor:
        noise = 2 * torch.rand(corners.shape, generator=generator, dtype=torch.float64) - 1
        return corners / 4 + wibble**2 * noise

    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]
        pairs = corners + corners.roll(-1, 1)
        field[:, half::step, half::step] = average(pairs + pairs.roll(-1, 2))
        middles = field[:, half::step, half::step]
        sides = middles + middles.roll(1, 1) + corners + corners.roll(-1, 2)
        field[:, ::step, half::step] = average(sides)
        sides = middles + middles.roll(1, 2) + corners + corners.roll(-1, 1)
        field[:, half::step, ::step] = average(sides)
        step, wibble = half, wibble / decay
    field = field - field.amin(dim=(1, 2), keepdim=True)
    return (field / field.amax(dim=(1, 2), keepdim=True))[:, :side, :side]


def _crystals(count: int, side: int, generator: torch.Generator) -> Tensor:
    """Draw bright needles on a pale ground: (count, 3, side, side) in [0, 1].

    Needles are where a smooth field crosses its middle value; finer fields give finer needles.
    """
    needles = torch.zeros(count, 1, side, side, dtype=torch.float64)
    for cells in (side // 6, side // 3, side // 2):
        field = smooth_field(count, 1, cells, side, generator)
        needles = torch.maximum(needles, (1 - (2 * field - 1).abs()) ** 4)
    ground = smooth_field(count, 1, 4, side, generator)
    ice = 0.2 + 0.35 * ground + 0.45 * needles
    return ice * torch.tensor(ICE, dtype=torch.float64).view(1, 3, 1, 1)
