"""The virtual set of a run: made from a seed, and the same on every machine that makes it.

Gaussian noise, the simplest of its generators, is made here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import Shape
from fedmirage.common.methods.vhl import Vhl
from fedmirage.common.methods.vhl.simple_cnn import simple_cnn
from fedmirage.common.methods.vhl.stylegan import stylegan
from fedmirage.common.models.base import Model
from fedmirage.common.seeds import derive, torch_generator
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.payload import Array, Arrays

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


# params, C_v, side, generator -> (C_v * per_class, 3, side, side)
Maker = Callable[[Vhl, int, int, torch.Generator], Tensor]
OWN = (0.5, 0.25)  # mean and std of virtual pixels with normalise="own"
MAKERS: dict[str, Maker] = {"stylegan": stylegan, "gaussian": gaussian, "simple_cnn": simple_cnn}


def seed_of(config: RunConfig) -> int:
    """The seed of the virtual set, which is all that the server sends with send="seed"."""
    return derive(config.seed, "vhl.virtual")


def virtual_images(params: Vhl, config: RunConfig, shape: Shape, classes: int, seed: int) -> Arrays:
    """Make [images, labels] for C real classes, class after class.

    The images are (samples, *shape), as bytes if the real inputs are pictures and else as floats;
    the labels are int16 (samples,).
    """
    count = params.count(classes)
    labels = torch.arange(count).repeat_interleave(params.per_class)
    if not config.pictures:
        images = gaussian_inputs(params, count, shape, torch_generator(seed, params.generator))
    elif params.generator == "dataset":
        images, labels = borrow(params, config, count)
    else:
        with one_thread():
            images = MAKERS[params.generator](
                params, count, max(shape[1:]), torch_generator(seed, params.generator)
            )
    if params.shuffle_labels:
        labels = labels[torch.randperm(len(labels), generator=torch_generator(seed, "shuffle"))]
    inputs = to_bytes(images, shape) if config.pictures else images.numpy()
    return [inputs, labels.to(torch.int16).numpy()]


def virtual_means(model: Model, layer: str, shape: Shape, classes: int, seed: int) -> Arrays:
    """Draw [means] of the "vfa" features: uniform in [0, 1), float32 (classes, layer width)."""
    mode, device = model.training, next(model.parameters()).device
    with torch.no_grad():
        width = model.eval().feature_maps(torch.zeros(1, *shape, device=device))[layer].numel()
    model.train(mode)
    return [torch.rand(classes, width, generator=torch_generator(seed, "vfa")).numpy()]


def normalisation(
    params: Vhl, mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and std of virtual pixels per channel, given those of the real ones."""
    if params.normalise == "real":
        return mean, std
    return (OWN[0],) * len(mean), (OWN[1],) * len(std)


def to_bytes(images: Tensor, shape: Shape) -> Array:
    """Turn pixels of any value into bytes of the run's shape; grey is the mean of the colours.

    Every colour is clamped to [0, 1] before the colours are averaged. Otherwise, values far below 0
    would outweigh the others, and much of a class would be black.
    """
    channels, height, width = shape
    pixels = images.clamp(0, 1)
    if channels != pixels.shape[1]:
        pixels = (
            pixels.mean(dim=1, keepdim=True)
            if channels == 1
            else pixels.expand(-1, channels, -1, -1)
        )
    if pixels.shape[2:] != (height, width):
        pixels = F.interpolate(pixels, size=(height, width), mode="bilinear", antialias=True)
    return (255 * pixels.clamp(0, 1)).round().to(torch.uint8).contiguous().numpy()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, so that server and client get the same bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)


def borrow(params: Vhl, config: RunConfig, count: int) -> tuple[Tensor, Tensor]:
    """Take the first samples of the first C_v classes of another data set.

    A class may have fewer samples than `per_class`.
    """
    # Clients come here as well, and they download no set that only the run names.
    dataset = load(params.dataset, config.data_dir or None, config.download, any_of_hub=False)
    if dataset.task != "single-label" or len(dataset.classes) < count:
        raise ConfigurationError(
            f"methods: vhl(dataset={params.dataset!r}) is {dataset.task} with"
            f" {len(dataset.classes)} classes, but {count} virtual classes with one label per"
            " sample are needed; choose another set"
        )
    labels = dataset.train.labels
    chosen = np.concatenate(
        [np.flatnonzero(labels == number)[: params.per_class] for number in range(count)]
    )
    images = torch.from_numpy(dataset.train.images[chosen]).to(torch.float32) / 255
    return images, torch.from_numpy(labels[chosen].astype(np.int64))
