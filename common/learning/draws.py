"""Random inputs of generators of features: noise, and labels that follow a distribution.

Numbers are drawn on the CPU, so that they are the same whichever device they are moved to.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Noise = Literal["normal", "uniform"]


def draw_noise(kind: Noise, samples: int, noise_dim: int, generator: torch.Generator) -> Tensor:
    """Draw (samples, noise_dim) from N(0, 1), or uniformly from [0, 1)."""
    draw = torch.randn if kind == "normal" else torch.rand
    return draw(samples, noise_dim, generator=generator)


def draw_labels(
    shares: npt.NDArray[np.float64], samples: int, generator: torch.Generator
) -> Tensor:
    """Draw exactly this many labels from p(y); a class with share 0 is never drawn."""
    weights = torch.tensor(shares, dtype=torch.float64)
    return torch.multinomial(weights, samples, replacement=True, generator=generator)
