"""One small untrained network per class, as in VHL's code.

The classes differ in nothing but the weights of the network that made the images.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.methods.vhl import Vhl

LATENT = 64
# Images at a time. Batch norm uses the statistics of a chunk, so chunks are always full.
CHUNK = 64
FIRST = (8, 8, 8)  # the shape of the linear layer's output


def simple_cnn(params: Vhl, classes: int, side: int, generator: torch.Generator) -> Tensor:
    """Make images (classes * per_class, 3, 32, 32), class after class."""
    return torch.cat([make_class(params, generator) for _ in range(classes)])


def make_class(params: Vhl, generator: torch.Generator) -> Tensor:
    """Make the images of one class with a new network.

    Differs from the code: its 50 steps that lower the images' covariance are left out, because the
    set needs no training at all.
    """
    kernels = draw_weights(params.width, generator)
    chunks = -(-params.per_class // CHUNK)
    latents = torch.randn(chunks, CHUNK, LATENT, generator=generator)
    return torch.cat([forward(kernels, chunk) for chunk in latents])[: params.per_class]


def draw_weights(width: int, generator: torch.Generator) -> list[Tensor]:
    """Draw the weights of all layers.

    These are the linear layer, four transposed 3x3 convolutions, three 5x5 convolutions, and the
    5x5 convolution that gives the colours.
    """

    def normal(std: float, *shape: int) -> Tensor:
        return std * torch.randn(*shape, generator=generator)

    def uniform(bound: float, *shape: int) -> Tensor:
        return bound * (2 * torch.rand(*shape, generator=generator) - 1)

    first = math.prod(FIRST)
    linear = normal(math.sqrt(2 / LATENT), first, LATENT)
    inputs = [FIRST[0], width, width, width]
    # Torch's default for a transposed convolution: uniform, with the second dimension as fan in.
    transposed = [uniform(1 / math.sqrt(width * 9), channels, width, 3, 3) for channels in inputs]
    plain = [
        normal(math.sqrt(2 / (25 * out)), out, width, 5, 5) for out in (width, width, width, 3)
    ]
    return [linear, *transposed, *plain]


def forward(kernels: list[Tensor], latents: Tensor) -> Tensor:
    """Grow 8 pixels to 20, 44, 46 and 48; unpadded convolutions shrink them to 44, 40, 36, 32."""
    linear, *rest = kernels
    value = normalise_maps(latents @ linear.T).view(-1, *FIRST)
    for number, kernel in enumerate(rest[:4]):
        value = F.conv_transpose2d(value, kernel)
        value = normalise_maps(
            F.interpolate(value, scale_factor=2.0, mode="nearest") if number < 2 else value
        )
    for kernel in rest[4:-1]:
        value = normalise_maps(F.conv2d(value, kernel))
    return torch.tanh(F.conv2d(value, rest[-1]))


def normalise_maps(value: Tensor) -> Tensor:
    """Apply batch norm with the statistics of the chunk, and ReLU."""
    return F.relu(F.batch_norm(value, None, None, training=True))
