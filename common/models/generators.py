"""Networks that generate images or features, and one that tells generated features from real.

Their random inputs are drawn on the CPU, so that they are the same whichever device they are moved
to.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedmirage.common.models.base import Shape, chain

Noise = Literal["normal", "uniform"]
FEATURE_GENERATOR_WIDTHS = (512, 256)  # FedMD-CG's
DISCRIMINATOR_WIDTH = 64  # the hidden layer of FedMD-CG's classifier for Fashion-MNIST
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


class FeatureGenerator(nn.Module):
    """FedMD-CG's network from noise and a label to features; its FedGen and FedCG have the same.

    It has three linear layers, the first two with batch norm and ReLU; FedGen's own has fewer. The
    output is linear, and so may be negative although the features that it imitates are not.
    """

    def __init__(
        self,
        noise_dim: int,
        classes: int,
        feature_dim: int,
        hidden: Sequence[int] = FEATURE_GENERATOR_WIDTHS,
    ) -> None:
        super().__init__()
        self.noise_dim, self.classes = noise_dim, classes
        layers: dict[str, nn.Module] = {}
        size = noise_dim + classes
        for index, width in enumerate(hidden, start=1):
            layers[f"hidden{index}"] = _normed_linear(size, width)
            size = width
        self.layers = chain(**layers, output=nn.Linear(size, feature_dim))

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        """(batch, noise_dim) and the labels of the batch to (batch, feature_dim)."""
        features: Tensor = self.layers(torch.cat((noise, one_hot(labels, self.classes)), dim=1))
        return features


class FeatureMeans(nn.Module):
    """One vector of features per class, whatever the noise: the placebo of a feature generator."""

    def __init__(self, noise_dim: int, classes: int, feature_dim: int) -> None:
        super().__init__()
        self.noise_dim, self.classes = noise_dim, classes
        self.means = nn.Parameter(torch.zeros(classes, feature_dim))

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        """(batch, noise_dim), of which nothing is used, and labels to (batch, feature_dim)."""
        return self.means.index_select(0, labels)


class FeatureDiscriminator(nn.Module):
    """FedCG's network from features to one logit: are they an extractor's, and not a generator's?

    If it sees `classes`, the label stands beside the features, and a LeakyReLU between the layers.
    Without them it is what FedMD-CG compares with: its classifier, linear throughout, with one
    output.
    """

    def __init__(self, feature_dim: int, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.layers = chain(
            hidden=nn.Linear(feature_dim + classes, DISCRIMINATOR_WIDTH),
            activation=nn.LeakyReLU(0.2) if classes else nn.Identity(),
            output=nn.Linear(DISCRIMINATOR_WIDTH, 1),
        )

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """(batch, feature_dim) and the labels of the batch to (batch,)."""
        if self.classes:
            wanted = one_hot(labels, self.classes)  # (batch, classes)
            features = torch.cat((features, wanted), dim=1)
        logits: Tensor = self.layers(features)[:, 0]
        return logits


def _normed_linear(size: int, width: int) -> nn.Sequential:
    return chain(linear=nn.Linear(size, width), norm=nn.BatchNorm1d(width), activation=nn.ReLU())


def _convolution(channels: int, width: int) -> nn.Sequential:
    return chain(
        conv=nn.Conv2d(channels, width, 3, padding=1),
        norm=nn.BatchNorm2d(width),
        activation=nn.LeakyReLU(0.2),
    )


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """(batch, classes), without torch's check of the labels, which waits for the device."""
    return (labels[:, None] == torch.arange(classes, device=labels.device)).float()


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
