"""Networks that generate images."""

import torch
from torch import Tensor, nn

from common.models.base import Shape, chain

SPREAD = 0.02  # standard deviation of the initial weights, and of the norms' gains around 1


class ImageGenerator(nn.Module):
    """FedCOG's network from noise to images in [0, 1] (A.5.1).

    It has a linear layer, two upsamplings by 2 and three 3x3 convolutions. Its batch norms use the
    statistics of the current batch. If 4 does not divide a side, the maps begin a little larger,
    and the second upsampling ends at the image's size.
    """

    def __init__(self, noise: int, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        channels, height, width = shape
        self.small = (128, -(-height // 4), -(-width // 4))
        self.linear = nn.Linear(noise, 128 * self.small[1] * self.small[2])
        self.layers = chain(
            norm=nn.BatchNorm2d(128),
            grow1=nn.Upsample(scale_factor=2),
            stage1=_convolution(128, 128),
            grow2=nn.Upsample(size=(height, width)),
            stage2=_convolution(128, 64),
            output=nn.Conv2d(64, channels, 3, padding=1),
            bounds=nn.Sigmoid(),
        )
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d | nn.BatchNorm2d):
                gain = 1.0 if isinstance(module, nn.BatchNorm2d) else 0.0
                nn.init.normal_(module.weight, gain, SPREAD, generator=generator)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, noise: Tensor) -> Tensor:
        """(samples, noise) to (samples, channels, height, width)."""
        images: Tensor = self.layers(self.linear(noise).view(len(noise), *self.small))
        return images


def _convolution(channels: int, width: int) -> nn.Sequential:
    return chain(
        conv=nn.Conv2d(channels, width, 3, padding=1),
        norm=nn.BatchNorm2d(width),
        activation=nn.LeakyReLU(0.2),
    )
