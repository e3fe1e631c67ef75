"""What FedCOG's generation optimises: the pixels, or a network that makes them and its input."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fedmirage.client.round import LocalRound
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.generators import ImageGenerator

NOISE = 256  # the size of a generator's input


def draw_canvases(
    params: FedCog, local: LocalRound, sizes: list[int], generator: torch.Generator
) -> Iterator[nn.Module]:
    """Yield what is optimised, batch after batch.

    All pixels are drawn before the first batch, so that they do not depend on the batch size.
    """
    shape = local.data.resident.images.shape[1:]  # (channels, height, width)
    image_format = local.run.memory_format
    if params.source == "generator":
        for size in sizes:
            canvas = Generated(size, shape, local.data.mean, local.data.std, generator)
            yield canvas.to(  # type: ignore[call-overload]
                local.device, memory_format=image_format
            )
    else:
        noise = torch.randn(params.samples, *shape, generator=generator)
        noise = noise.to(local.device).contiguous(memory_format=image_format)
        for batch in torch.split(noise, sizes):
            yield Pixels(batch, local.run.dataset.categories)


class Pixels(nn.Module):
    """The images themselves are learned; of a category, the logits of its relaxation."""

    def __init__(self, noise: Tensor, categories: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__()
        self.images = nn.Parameter(noise)
        self.categories = categories

    def forward(self) -> Tensor:
        """(samples, channels, ...)."""
        return relax(self.images, self.categories)


def relax(inputs: Tensor, categories: Sequence[tuple[int, int]]) -> Tensor:
    """Replace the channels of every category by their softmax, which adds up to 1."""
    if not categories:
        return inputs
    parts, done = [], 0
    for first, end in categories:
        parts += [inputs[:, done:first], inputs[:, first:end].softmax(1)]
        done = end
    return torch.cat([*parts, inputs[:, done:]], dim=1)


class Generated(nn.Module):
    """A network and its input are learned.

    The network makes pixels in [0, 1], which are then normalised like real ones.
    """

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
