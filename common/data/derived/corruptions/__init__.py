"""The 19 corruptions of CIFAR-10-C as functions of whole batches.

Dan Hendrycks and Thomas Dietterich, Benchmarking Neural Network Robustness to Common Corruptions
and Perturbations, ICLR 2019, https://arxiv.org/abs/1903.12261. The strengths are those with which
the authors made CIFAR-10-C, which are weaker than those for ImageNet.

A corruption takes pictures of (samples, 3, 32, 32) in [0, 1], the severity from 1 to 5, and the
generator of everything that is random about it; every picture gets draws of its own.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fedmirage.common.data.derived.corruptions import blurs, colours, noise, shapes, weather
from fedmirage.common.data.derived.corruptions.jpeg import jpeg_compression
from fedmirage.common.data.derived.corruptions.spatter import spatter

Corruption = Callable[[Tensor, int, torch.Generator], Tensor]

# By the names of the published files; the first fifteen are the benchmark, the others its extras.
CORRUPTIONS: dict[str, Corruption] = {
    corruption.__name__: corruption
    for corruption in (
        *(noise.gaussian_noise, noise.shot_noise, noise.impulse_noise),
        *(blurs.defocus_blur, blurs.glass_blur, blurs.motion_blur, blurs.zoom_blur),
        *(weather.snow, weather.frost, weather.fog, colours.brightness, colours.contrast),
        *(shapes.elastic_transform, shapes.pixelate, jpeg_compression),
        *(noise.speckle_noise, blurs.gaussian_blur, spatter, colours.saturate),
    )
}


def corrupt(images: Tensor, name: str, severity: int, generator: torch.Generator) -> Tensor:
    """Corrupt bytes, (samples, 3, 32, 32), and return bytes.

    The last step cuts off what is behind the point, as the authors' program does.
    """
    values = CORRUPTIONS[name](images.double() / 255, severity, generator)
    # the tiny addend keeps whole numbers whole, which 255 * (byte / 255) would not always be
    return (values.clamp(0, 1) * 255 + 1e-9).to(torch.uint8)
