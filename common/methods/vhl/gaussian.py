"""Upsampled Gaussian noise: the simplest of VHL's generators."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.methods.vhl import Vhl

SIDE = 8  # the side of the noise before it is upsampled, in pixels
STD = 0.5


def gaussian(params: Vhl, classes: int, side: int, generator: torch.Generator) -> Tensor:
    """Draw mu_c ~ N(0, 1) once per class; every image is N(mu_c, 0.5^2) in 3x8x8, upsampled."""
    means = torch.randn(classes, 1, 3, SIDE, SIDE, generator=generator)
    noise = torch.randn(classes, params.per_class, 3, SIDE, SIDE, generator=generator)
    return F.interpolate(
        (means + STD * noise).flatten(0, 1), size=(side, side), mode="bilinear", align_corners=False
    )
