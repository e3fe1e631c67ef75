"""Distribution matching: virtual images get the mean features that the real ones of a class have.

Both stages of FedLGD use it: the initial one with a new random network per step, the later one with
the network that the server sent.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedmirage.client.round import LocalClient
from fedmirage.common.data.batches import Resident, normalise
from fedmirage.common.learning.diffaugment import apply, draw_once
from fedmirage.common.methods.distil.declaration import Distilling

Extractor = Callable[[Tensor], Tensor]  # images (batch, ...) to features (batch, values)


@dataclass
class Matching:
    """A client's virtual images, which never leave it, and all that the next step depends on."""

    images: Tensor  # (samples, channels, height, width) float32, normalised, of any value
    labels: Tensor  # (samples,) int64, class after class
    velocity: Tensor  # what SGD with momentum adds up; like images
    lr: float  # of the pixels; halved by a step that fails
    step: int = 0  # steps made so far
    loss: float = math.nan  # L_DM before the last step that succeeded; NaN without any
    setbacks: int = 0  # steps that were undone because pixels were not finite

    @classmethod
    def begin(cls, images: Tensor, labels: Tensor, lr: float) -> "Matching":
        """Begin with these images, as a new optimiser would."""
        return cls(images, labels, torch.zeros_like(images), lr)


@dataclass(frozen=True)
class RealImages:
    """A client's own images by class."""

    resident: Resident
    mean: tuple[float, ...]
    std: tuple[float, ...]
    memory_format: torch.memory_format

    @classmethod
    def of(cls, local: LocalClient) -> "RealImages":
        """Those of this client, whatever it trains on."""
        data = local.data
        return cls(data.real, data.mean, data.std, local.run.memory_format)

    @property
    def shape(self) -> torch.Size:
        """(channels, height, width) of one image."""
        return self.resident.images.shape[1:]

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.resident.images.device

    def all(self, label: int) -> Tensor:
        """Return all normalised images of a class."""
        return self._take(self._find(label))

    def draw(self, label: int, most: int, generator: torch.Generator) -> Tensor:
        """Draw up to `most` normalised images of a class, without replacement."""
        found = self._find(label)
        order = torch.randperm(len(found), generator=generator)[:most]
        return self._take(found[order.to(found.device)])

    def _find(self, label: int) -> Tensor:
        return (self.resident.labels == label).nonzero().flatten()

    def _take(self, index: Tensor) -> Tensor:
        return normalise(self.resident.take(index)[0], self.mean, self.std, self.memory_format)


def match_distributions(
    matching: Matching,
    real: RealImages,
    params: Distilling,
    extractor_for: Callable[[int], Extractor],
    generator_for: Callable[[int], torch.Generator],
    steps: int,
    until: float = math.inf,
) -> None:
    """Go on with a matching, in place, until it has made `steps` steps or time.monotonic() is up.

    At least one step is made unless all are. The extractor and the generator of a step are asked
    for by its number, from 0, so that the result does not depend on how the work was interrupted.
    An extractor must be frozen, and on the device of the images.
    """
    while matching.step < steps:
        number = matching.step
        make_step(matching, real, params, extractor_for(number), generator_for(number))
        if time.monotonic() >= until:
            break


def make_step(
    matching: Matching,
    real: RealImages,
    params: Distilling,
    extractor: Extractor,
    generator: torch.Generator,
) -> None:
    """Make one step of SGD with momentum on all pixels; they are never clamped.

    A step that gives pixels that are not finite is undone: the momentum starts afresh, with half
    the learning rate.
    """
    # New strides in every step, since a turn that begins with a file must compute the same bits.
    images = torch.empty_like(matching.images, memory_format=real.memory_format)
    images.copy_(matching.images).requires_grad_()
    loss = matching_loss(images, matching.labels, real, params, extractor, generator)
    (gradient,) = torch.autograd.grad(loss, images)
    velocity = params.pixel_momentum * matching.velocity + gradient
    moved = images.detach() - matching.lr * velocity
    matching.step += 1
    if bool(moved.isfinite().all()):
        matching.images, matching.velocity = moved, velocity
        matching.loss = float(loss.detach())
    else:
        matching.lr /= 2
        matching.velocity = torch.zeros_like(matching.velocity)
        matching.setbacks += 1


def matching_loss(
    images: Tensor,
    labels: Tensor,
    real: RealImages,
    params: Distilling,
    extractor: Extractor,
    generator: torch.Generator,
) -> Tensor:
    """L_DM: the distances between the mean features of real and virtual images, over all classes.

    Each class draws its real images and one change, which is the same for real and virtual ones.
    """
    counts = labels.bincount()
    present = counts.nonzero().flatten()
    distances = []
    for label, virtual in zip(
        present.tolist(), torch.split(images, counts[present].tolist()), strict=True
    ):
        drawn = real.draw(label, params.real_per_class, generator)
        if params.operations:
            change = draw_once(generator, params.operations)
            drawn, virtual = apply(drawn, change), apply(virtual, change)
        with torch.no_grad():
            target = extractor(drawn)
        distances.append(distance_of_means(extractor(virtual), target))
    return torch.stack(distances).sum()


def distance_of_means(virtual: Tensor, real: Tensor) -> Tensor:
    """|| mean_j virtual_j - mean_i real_i ||^2, in which only the virtual features move."""
    difference = virtual.mean(0) - real.mean(0).detach()  # (values,)
    return difference.square().sum()
