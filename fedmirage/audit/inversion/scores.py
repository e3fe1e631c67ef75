"""How much a rebuilt image resembles the original; pixels go from 0 to 1."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

WINDOW, SPREAD = 11, 1.5  # of SSIM: the side of its window, and the deviation of the Gaussian in it
STABILITY = (0.01**2, 0.03**2)  # of SSIM: C1 and C2 for pixels up to 1
LEAST = 1e-10  # the smallest mean squared error that counts, so that PSNR ends at 100 dB


def psnr(images: Tensor, others: Tensor) -> Tensor:
    """Compute the peak signal-to-noise ratio of each pair, in dB."""
    error = (images - others).square().flatten(-3).mean(-1)
    return -10 * error.clamp(min=LEAST).log10()


def ssim(images: Tensor, others: Tensor) -> Tensor:
    """Compute the structural similarity of each pair (Wang et al., 2004), a mean over channels."""
    channels, *sides = images.shape[-3:]
    side = min(WINDOW, *(length - (length + 1) % 2 for length in sides))
    place = torch.arange(side, dtype=images.dtype) - side // 2
    line = torch.exp(-place.square() / (2 * SPREAD**2))
    window = torch.outer(line, line) / line.sum() ** 2
    kernel = window.expand(channels, 1, side, side)

    def blur(values: Tensor) -> Tensor:
        return F.conv2d(values, kernel, groups=channels)

    mean, other = blur(images), blur(others)
    variance = blur(images.square()) - mean.square()
    variance_of_other = blur(others.square()) - other.square()
    covariance = blur(images * others) - mean * other
    first, second = STABILITY
    similarity = (2 * mean * other + first) * (2 * covariance + second)
    similarity = similarity / (mean.square() + other.square() + first)
    similarity = similarity / (variance + variance_of_other + second)
    return similarity.flatten(1).mean(1)


def assign(rebuilt: Tensor, originals: Tensor) -> tuple[Tensor, Tensor]:
    """Pair rebuilt images with originals so that the sum of PSNR is largest.

    Return which of the rebuilt images and which of the originals form the pairs.
    """
    scores = psnr(rebuilt[:, None], originals[None])  # (rebuilt, originals)
    ours, theirs = linear_sum_assignment(scores.numpy(), maximize=True)
    return torch.as_tensor(ours), torch.as_tensor(theirs)
