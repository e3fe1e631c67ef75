"""StyleGAN-v2 (Karras et al., CVPR 2020) before any training: VHL's own generator, at any size.

Classes are Gaussians in the latent space. The mapping has one layer, and one style serves all
layers of an image.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.methods.vhl import Vhl

CHUNK = 100  # images at a time
MEAN_STD = 0.5  # the standard deviation of the classes' latent means
NOISE_STD = 0.1  # that of a pixel's noise, before it is divided by the number of layers
TAPS = (1 / 8, 3 / 8, 3 / 8, 1 / 8)  # the low pass filter, in each direction


def stylegan(params: Vhl, classes: int, side: int, generator: torch.Generator) -> Tensor:
    """Make images (classes * per_class, 3, side', side'), class after class.

    side' is the next power of two.
    """
    size = 256 if classes >= 62 else 64  # the dimension of the latent space
    means = MEAN_STD * torch.randn(classes, 1, size, generator=generator)
    spread = latent_std(classes) * torch.randn(classes, params.per_class, size, generator=generator)
    network = StyleGan(
        generator, size, params.width, max(3, math.ceil(math.log2(side))), params.noise_gain
    )
    noise = (
        noise_means(classes, network.layers, generator)
        if params.noise_gain
        else torch.zeros(classes, network.layers)
    )
    latents = (means + spread).flatten(0, 1)
    noise = noise.repeat_interleave(params.per_class, dim=0)
    chunks = zip(torch.split(latents, CHUNK), torch.split(noise, CHUNK), strict=True)
    return torch.cat([network(chunk, around, generator) for chunk, around in chunks])


def latent_std(classes: int) -> float:
    """The spread of a class. Many classes lie closer together, so each must be narrower."""
    return 0.3 if classes < 100 else 0.2 if classes < 200 else 0.15


@dataclass
class Convolution:
    """A 3x3 convolution whose input channels are scaled by a style.

    It is "demodulated": every scaled filter has length 1.
    """

    kernel: Tensor  # (out, in, 3, 3) ~ N(0, 1) / sqrt(fan in)
    affine: Tensor  # (in, styles) ~ N(0, 1) / sqrt(styles): s = A w + 1

    def __call__(self, value: Tensor, style: Tensor, upsample: bool = False) -> Tensor:
        """Scale input and output channels instead of using one kernel per sample.

        The result is the same, but one convolution serves the whole batch.
        """
        scale = style @ self.affine.T + 1  # (batch, in)
        squares = scale.square() @ self.kernel.square().sum(dim=(2, 3)).T  # (batch, out)
        length = (squares + 1e-8).rsqrt()
        value = value * scale[:, :, None, None]
        if upsample:
            value = F.conv_transpose2d(value, self.kernel.transpose(0, 1), stride=2)
            value = blur(F.pad(value, (1, 1, 1, 1)), gain=4)
        else:
            value = F.conv2d(value, self.kernel, padding=1)
        return value * length[:, :, None, None]


@dataclass
class StyleGan:
    """The generator at initialisation; its weights are drawn in the order of the fields below."""

    generator: torch.Generator
    size: int  # the dimension of latents and styles
    width: int  # channels per layer
    octaves: int  # log2 of the side
    gain: float = 0.0  # the strength of the noise
    mapping: Tensor = field(init=False)
    constant: Tensor = field(init=False)
    convolutions: list[Convolution] = field(init=False)
    colours: list[Convolution] = field(init=False)  # toRGB: 1x1, not demodulated

    def __post_init__(self) -> None:
        self.mapping = self.draw(self.size, self.size) / math.sqrt(self.size)
        self.constant = self.draw(1, self.width, 4, 4)
        self.convolutions = [self.layer(self.width, 3) for _ in range(self.layers)]
        self.colours = [self.layer(3, 1) for _ in range(self.octaves - 1)]

    @property
    def layers(self) -> int:
        """One convolution at 4 pixels and two at every later resolution: 7 for 32 pixels."""
        return 2 * self.octaves - 3

    def __call__(self, latents: Tensor, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Turn (batch, size) latents and (batch, layers) noise into images (batch, 3, side, side).

        `generator` draws the noise.
        """
        lengths = latents.square().mean(dim=1, keepdim=True).add(1e-8).sqrt()
        style = leaky(latents / lengths @ self.mapping.T)
        value = self.constant.expand(len(latents), -1, -1, -1)
        image = torch.zeros(())
        for number, convolution in enumerate(self.convolutions):
            grows = number % 2 == 1  # 4 | 8 8 | 16 16 | 32 32
            value = convolution(value, style, upsample=grows)
            if self.gain:
                drawn = torch.randn(len(value), 1, *value.shape[2:], generator=generator)
                value = value + self.gain * (
                    noise[:, number, None, None, None] + NOISE_STD / self.layers * drawn
                )
            value = leaky(value)
            if not grows:
                image = (upsample(image) if image.ndim else image) + to_rgb(
                    self.colours[number // 2], value, style
                )
        return image

    def draw(self, *shape: int) -> Tensor:
        """Draw standard normal weights."""
        return torch.randn(*shape, generator=self.generator)

    def layer(self, out: int, kernel: int) -> Convolution:
        """Draw a modulated convolution at initialisation."""
        weight = self.draw(out, self.width, kernel, kernel) / math.sqrt(self.width * kernel**2)
        return Convolution(weight, self.draw(self.width, self.size) / math.sqrt(self.size))


def leaky(value: Tensor) -> Tensor:
    """Leaky ReLU, scaled so that it keeps the variance."""
    return math.sqrt(2) * F.leaky_relu(value, 0.2)


def to_rgb(colour: Convolution, value: Tensor, style: Tensor) -> Tensor:
    """Turn features into three colours."""
    return F.conv2d(value * (style @ colour.affine.T + 1)[:, :, None, None], colour.kernel)


def blur(value: Tensor, gain: float) -> Tensor:
    """Low-pass every channel with 4x4 taps, first down, then across; maps shrink by 3 pixels."""
    height, width = value.shape[2] - 3, value.shape[3] - 3
    value = torch.stack(
        [tap * value[:, :, start : start + height] for start, tap in enumerate(TAPS)]
    ).sum(dim=0)
    return torch.stack(
        [gain * tap * value[..., start : start + width] for start, tap in enumerate(TAPS)]
    ).sum(dim=0)


def upsample(image: Tensor) -> Tensor:
    """Double the size: put zeros between the pixels, then apply the same low pass."""
    batch, channels, height, width = image.shape
    spaced = image.new_zeros(batch, channels, 2 * height, 2 * width)
    spaced[:, :, ::2, ::2] = image
    return blur(F.pad(spaced, (2, 1, 2, 1)), gain=4)


@torch.enable_grad()
def noise_means(classes: int, layers: int, generator: torch.Generator) -> Tensor:
    """Find one unit vector of noise means per class, (classes, layers), that differ strongly.

    500 steps of SGD minimise the squared products of different classes.
    """
    free = torch.randn(classes, layers, generator=generator).requires_grad_()
    optimizer = torch.optim.SGD([free], lr=0.01)
    for _ in range(500):
        optimizer.zero_grad()
        directions = F.normalize(free)
        ((directions @ directions.T).square().sum() - classes).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return F.normalize(free).detach()
