"""Noise: Gaussian, of few photons, of broken pixels, and one that grows with the light."""

import torch
from torch import Tensor


def gaussian_noise(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Add normal noise to every value."""
    deviation = (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1]
    return images + deviation * _normal(images, generator)


def shot_noise(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Count photons: a Poisson number with the brightness as its mean."""
    photons = (500, 250, 100, 75, 50)[severity - 1]  # of full brightness
    return torch.poisson(images * photons, generator=generator) / photons


def impulse_noise(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Set a share of all values to 0 or 1."""
    share = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    broken = torch.rand(images.shape, generator=generator, dtype=images.dtype) <= share
    lit = torch.rand(images.shape, generator=generator, dtype=images.dtype) <= 0.5
    return torch.where(broken, lit.to(images.dtype), images)


def speckle_noise(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Add normal noise in proportion to every value."""
    deviation = (0.06, 0.1, 0.12, 0.16, 0.2)[severity - 1]
    return images + images * deviation * _normal(images, generator)


def _normal(images: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(images.shape, generator=generator, dtype=images.dtype)
