"""Gaussian noise, the simplest of VHL's generators: upsampled, or in the shape of other inputs."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.method import Shape
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


def gaussian_inputs(params: Vhl, classes: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """Draw mu_c ~ N(0, 1) once per class; every input is N(mu_c, 0.5^2), as if it were normalised.

    For rows of a table, signals and embeddings, which have no neighbours to upsample between.
    """
    means = torch.randn(classes, 1, *shape, generator=generator)
    noise = torch.randn(classes, params.per_class, *shape, generator=generator)
    return (means + STD * noise).flatten(0, 1)
