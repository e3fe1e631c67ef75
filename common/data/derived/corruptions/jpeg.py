"""JPEG's loss without its files: colours to luma and chroma, cosines, rounding, and all the way
back."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 8
# The example tables of the standard (annex K), which the usual encoders scale by the quality.
LUMA = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMA = (
    *(17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99),
    *(24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99),
    *(99,) * 32,
)
# Rows: luma, blue difference, red difference; columns: red, green, blue.
TO_LUMA = (
    (0.299, 0.587, 0.114),
    (-0.168735892, -0.331264108, 0.5),
    (0.5, -0.418687589, -0.081312411),
)


def jpeg_compression(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Return the pictures as JPEG files of lower and lower quality would show them.

    The sides must be multiples of 16. Differs from the usual program by at most a few shades,
    because that computes cosines with whole numbers.
    """
    quality = (80, 65, 58, 50, 40)[severity - 1]
    matrix = torch.tensor(TO_LUMA, dtype=images.dtype)
    planes = torch.einsum("ij,njhw->nihw", matrix, images * 255)
    planes[:, 1:] += 128
    planes = planes.round().clamp(0, 255)
    luma = _lose(planes[:, :1], _table(LUMA, quality))
    chroma = _lose(_halve(planes[:, 1:]), _table(CHROMA, quality))
    back = torch.cat((luma, _double(chroma) - 128), dim=1)
    return (torch.einsum("ij,njhw->nihw", torch.linalg.inv(matrix), back)).round() / 255


def _lose(planes: Tensor, table: Tensor) -> Tensor:
    """Round the cosine coefficients of every block of 8x8 to multiples of the table's numbers."""
    samples, channels, height, width = planes.shape
    blocks = planes.view(samples, channels, height // BLOCK, BLOCK, width // BLOCK, BLOCK)
    blocks = blocks.transpose(3, 4) - 128  # (..., rows of blocks, columns of blocks, 8, 8)
    cosines = _cosines().to(planes.dtype)
    kept = ((cosines @ blocks @ cosines.T) / table).round() * table
    back = (cosines.T @ kept @ cosines + 128).round().clamp(0, 255)
    return back.transpose(3, 4).reshape(planes.shape)


def _cosines() -> Tensor:
    """Return the orthonormal cosine transform of eight values."""
    steps = torch.arange(BLOCK, dtype=torch.float64)
    waves = torch.cos(math.pi / BLOCK * steps[:, None] * (steps + 0.5)) * math.sqrt(2 / BLOCK)
    waves[0] /= math.sqrt(2)
    return waves


def _table(base: tuple[int, ...], quality: int) -> Tensor:
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    table = (torch.tensor(base, dtype=torch.float64) * scale + 50) // 100
    return table.clamp(1, 255).view(BLOCK, BLOCK)


def _halve(planes: Tensor) -> Tensor:
    """Average 2x2 pixels, rounding up in every second column, so that no side is favoured."""
    total = 4 * F.avg_pool2d(planes, 2)
    favour = 1 + torch.arange(total.shape[-1], dtype=planes.dtype) % 2
    return torch.floor((total + favour) / 4)


def _double(planes: Tensor) -> Tensor:
    """Enlarge to twice the side: three quarters of the nearest pixel, a quarter of the next."""
    return F.interpolate(planes, scale_factor=2, mode="bilinear", align_corners=False)
