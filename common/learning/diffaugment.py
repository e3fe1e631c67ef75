"""DiffAugment: differentiable augmentation of normalised images, from an explicit generator.

Zhao et al.: Differentiable Augmentation for Data-Efficient GAN Training, NeurIPS 2020; with the six
operations and the strengths that dataset condensation uses. Mode "single": a call draws one
operation for the whole batch, then its parameters per sample. Siamese augmentation (Zhao and Bilen,
ICML 2021) compares two batches that were transformed in the same way: `draw_once` draws the
parameters once, and `apply` uses them for every image of any batch. Everything is drawn on the CPU
before anything is computed, so that every device uses the same numbers and a step can be
recomputed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BRIGHTNESS, SATURATION, CONTRAST = 1.0, 2.0, 0.5
CROP, CUTOUT = 0.125, 0.5  # the largest shift and the hole, as fractions of the side
SCALE, ROTATE = 1.2, 15.0  # the largest factor, the largest angle in degrees


@dataclass(frozen=True)
class Draw:
    """One operation with three uniform numbers per sample; each operation uses what it needs."""

    operation: str
    uniform: Tensor  # (3, batch) from 0 to 1, or (3, 1): the same for every image of any batch


def diff_augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Vary images, (batch, channels, height, width), by one randomly drawn operation."""
    return apply(images, draw(len(images), generator))


def draw(batch: int, generator: torch.Generator, operations: Sequence[str] = ()) -> Draw:
    """Draw one operation of these (or of all six), all equally likely; parameters per sample."""
    names = operations or tuple(OPERATIONS)
    operation = names[int(torch.randint(len(names), (), generator=generator))]
    return Draw(operation, torch.rand(3, batch, generator=generator))


def draw_once(generator: torch.Generator, operations: Sequence[str] = ()) -> Draw:
    """Draw one operation of these (or of all), with the same parameters for every image."""
    return draw(1, generator, operations)


def apply(images: Tensor, drawn: Draw) -> Tensor:
    """Apply the drawn operation; it is differentiable in the images."""
    uniform = drawn.uniform.to(images).expand(-1, len(images))
    return OPERATIONS[drawn.operation](images, uniform)


class Symmetric(torch.autograd.Function):
    """A symmetric linear operation: it is its own derivative, with fewer passes than autograd's."""

    @staticmethod
    def forward(
        ctx: Any, images: Tensor, uniform: Tensor, operation: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Apply the operation."""
        ctx.uniform, ctx.operation = uniform, operation
        return operation(images, uniform)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Apply it to the gradient."""
        return ctx.operation(gradient, ctx.uniform), None, None


def color(images: Tensor, uniform: Tensor) -> Tensor:
    """Change brightness, then saturation (no effect on a single channel), then contrast."""
    brightness = (uniform[0, :, None, None, None] - 0.5) * BRIGHTNESS
    varied: Tensor = Symmetric.apply(images + brightness, uniform, _spread)  # type: ignore[no-untyped-call]
    return varied


def _spread(images: Tensor, uniform: Tensor) -> Tensor:
    """Move values away from the grey of their pixel, then from the mean of their image."""
    _, saturation, contrast = uniform[:, :, None, None, None]  # (batch, 1, 1, 1) each
    if images.shape[1] > 1:
        grey = images.mean(dim=1, keepdim=True)
        images = (images - grey) * (saturation * SATURATION) + grey
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    varied: Tensor = (images - mean) * (contrast + CONTRAST) + mean
    return varied


def crop(images: Tensor, uniform: Tensor) -> Tensor:
    """Shift by whole pixels, by up to an eighth of the side; what moves in from outside is zero."""
    batch, channels, height, width = images.shape
    tall, wide = round_half_up(height * CROP), round_half_up(width * CROP)
    # Rows and columns of the padded image.
    rows = whole(uniform[0], 2 * tall + 1)[:, None] + torch.arange(height, device=images.device)
    columns = whole(uniform[1], 2 * wide + 1)[:, None] + torch.arange(width, device=images.device)
    source = rows[:, :, None] * (width + 2 * wide) + columns[:, None, :]  # (batch, height, width)
    padded = F.pad(images, (wide, wide, tall, tall)).flatten(2)
    return padded.gather(2, source.view(batch, 1, -1).expand(-1, channels, -1)).view(images.shape)


def cutout(images: Tensor, uniform: Tensor) -> Tensor:
    """Zero a rectangle of half the sides around a random centre, clipped at the border."""
    rows, columns = (
        _find_outside(size, draw) for size, draw in zip(images.shape[2:], uniform, strict=False)
    )
    return images * torch.maximum(rows[:, None, :, None], columns[:, None, None, :])


def _find_outside(size: int, uniform: Tensor) -> Tensor:
    """(batch, size): 1 for the rows (or columns) that lie outside the hole, 0 for the others."""
    side = round_half_up(size * CUTOUT)
    first = whole(uniform, size + 1 - side % 2)[:, None] - side // 2
    index = torch.arange(size, device=uniform.device)
    return ((index < first) | (index >= first + side)).to(uniform.dtype)


def flip(images: Tensor, uniform: Tensor) -> Tensor:
    """Exchange left and right with probability one half."""
    flipped: Tensor = Symmetric.apply(images, uniform, _flip)  # type: ignore[no-untyped-call]
    return flipped


def _flip(images: Tensor, uniform: Tensor) -> Tensor:
    return torch.where(uniform[0, :, None, None, None] < 0.5, images.flip(3), images)


def scale(images: Tensor, uniform: Tensor) -> Tensor:
    """Scale width and height by independent factors."""
    factor = uniform[:2] * (SCALE - 1 / SCALE) + 1 / SCALE
    zero = torch.zeros_like(factor[0])
    return _affine(images, [[factor[0], zero], [zero, factor[1]]])


def rotate(images: Tensor, uniform: Tensor) -> Tensor:
    """Rotate around the centre."""
    angle = (2 * uniform[0] - 1) * math.radians(ROTATE)
    return _affine(images, [[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])


def _affine(images: Tensor, theta: list[list[Tensor]]) -> Tensor:
    """Sample the images at theta (x, y), where x and y are distances from the centre.

    Differs from the code: x and y have the same unit, because with the code's fractions of the
    sides, a rotation would shear pictures that are not square.
    This is torch's affine_grid without its product of matrices three columns wide, which takes
    longer than all the rest. The two coordinates are in two maps, because it also takes long to
    interleave them; torch samples from both layouts.
    """
    batch, _, height, width = images.shape
    y = torch.linspace(-1, 1, height, device=images.device, dtype=images.dtype)[:, None]
    x = torch.linspace(-1, 1, width, device=images.device, dtype=images.dtype)
    (a, b), (c, d) = ([number[:, None, None] for number in row] for row in theta)  # (batch, 1, 1)
    ratio = max(height - 1, 1) / max(width - 1, 1)  # the unit of y, in units of x
    sources = images.new_empty(2, batch, height, width)
    torch.add(a * x, b * ratio * y, out=sources[0])
    torch.add(c / ratio * x, d * y, out=sources[1])
    return F.grid_sample(images, sources.permute(1, 2, 3, 0), align_corners=True)


def whole(uniform: Tensor, count: int) -> Tensor:
    """Turn uniform numbers into integers from 0 to count - 1, all equally likely."""
    return (uniform * count).long().clamp(max=count - 1)


def round_half_up(value: float) -> int:
    """Round as the published operations do."""
    return int(value + 0.5)


OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    operation.__name__: operation for operation in (color, crop, cutout, flip, scale, rotate)
}
