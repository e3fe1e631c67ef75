"""What FedCOG's generation optimises: pixels, or a network that makes them together with its
input."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from client.round import LocalRound
from common.device import memory_format
from common.methods.fedcog import FedCog
from common.models.generators import ImageGenerator

NOISE = 256  # numbers from which a generator makes an image


def draw_canvases(
    params: FedCog, local: LocalRound, sizes: list[int], generator: torch.Generator
) -> Iterator[nn.Module]:
    """What is optimised, batch after batch. All pixels are drawn before the first batch: its size
    does not change them."""
    shape = local.data.resident.images.shape[1:]  # (channels, height, width)
    layout = memory_format(local.config)
    if params.source == "generator":
        for size in sizes:
            canvas = Generated(size, shape, local.data.mean, local.data.std, generator)
            yield canvas.to(local.device, memory_format=layout)  # type: ignore[call-overload]
    else:
        noise = torch.randn(params.samples, *shape, generator=generator)
        for some in torch.split(noise.to(local.device).contiguous(memory_format=layout), sizes):
            yield Pixels(some)


class Pixels(nn.Module):
    """The images themselves are what is learned."""

    def __init__(self, noise: Tensor) -> None:
        super().__init__()
        self.images = nn.Parameter(noise)

    def forward(self) -> Tensor:
        """(samples, channels, height, width)."""
        return self.images


class Generated(nn.Module):
    """What is learned is a network and its input; it makes pixels in [0, 1], which are then
    normalised like real ones."""

    def __init__(
        self,
        samples: int,
        shape: Sequence[int],
        mean: Sequence[float],
        std: Sequence[float],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.noise = nn.Parameter(torch.randn(samples, NOISE, generator=generator))
        self.network = ImageGenerator(NOISE, (channels, height, width), generator)
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self) -> Tensor:
        """(samples, channels, height, width)."""
        images: Tensor = (self.network(self.noise) - self.mean) / self.std
        return images
