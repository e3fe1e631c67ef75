"""The samples that a client trains on in a round, and their batches.

They stay on the device, and no Python code runs per sample.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedmirage.client.round import LocalRound
from fedmirage.common.data.batches import Resident, batches, normalise
from fedmirage.common.learning.augment import AUGMENTATIONS, augment, mean_bytes


@dataclass
class LocalData:
    """Images and labels on the device.

    Bytes are augmented and normalised batch by batch; floats are taken as they are.
    """

    resident: Resident  # what is trained on: uint8 pixels, or floats that are normalised already
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_counts: npt.NDArray[np.int64]  # (classes,) of what is trained on
    # Whether a method adds images to every step: then even a batch of one is not alone in its pass.
    accompanied: bool = False
    real: Resident = field(init=False)  # the client's own samples, even if they are not trained on
    real_class_counts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.real, self.real_class_counts = self.resident, self.class_counts

    def __len__(self) -> int:
        return len(self.resident)

    def replace(self, images: Tensor, labels: Tensor) -> None:
        """Train on these samples from now on.

        Batches, the length of an epoch and this client's weight in the average follow from them;
        the real samples stay readable.
        """
        self.resident = Resident(images, labels)
        counts = labels.sum(0) if labels.ndim == 2 else labels.bincount(minlength=self.classes)
        self.class_counts = counts.to(torch.int64).cpu().numpy()

    @property
    def classes(self) -> int:
        """The number of classes, whether or not this client has samples of each."""
        return len(self.real_class_counts)

    def prepare(
        self,
        images: Tensor,
        name: str,
        generator: torch.Generator,
        image_format: torch.memory_format,
    ) -> Tensor:
        """Turn bytes into the floats that a model sees, varied by the augmentation of this name."""
        if images.dtype != torch.uint8:
            return images
        varied = augment(images, AUGMENTATIONS[name], generator, mean_bytes(self.mean))
        return normalise(varied, self.mean, self.std, image_format)

    def batches(self, local: LocalRound, phase: str = "") -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the (images, labels) of every step of the round.

        A second phase of training names itself, e.g. "generator.", and gets other batches.
        """
        config = local.config
        order, varied = local.generator(f"{phase}batches"), local.generator(f"{phase}augment")
        image_format = local.run.memory_format
        # Methods add their images to the first phase only.
        alone_spoils = has_batch_statistics(local.model) and (bool(phase) or not self.accompanied)
        steps, epochs = config.local_steps or None, config.local_epochs or None
        if alone_spoils and min(len(self), config.batch_size) == 1:
            return
        # One sample has no variance to normalise by, so a last batch of one sample is skipped. That
        # is at most one batch per pass.
        asked = 2 * steps if steps and alone_spoils else steps
        indices = batches(len(self), order, config.batch_size, steps=asked, epochs=epochs)
        usable = (index for index in indices if len(index) > 1 or not alone_spoils)
        for index in islice(usable, steps):
            images, labels = self.resident.take(index)
            yield self.prepare(images, config.augment, varied, image_format), labels


def has_batch_statistics(model: nn.Module) -> bool:
    """Whether a model normalises over the batch, and so cannot train on a batch of one."""
    return bool(batch_norms(model))


def batch_norms(model: nn.Module) -> list[nn.BatchNorm1d | nn.BatchNorm2d]:
    """List the layers of a model that normalise over the batch."""
    kinds = nn.BatchNorm1d | nn.BatchNorm2d
    return [module for module in model.modules() if isinstance(module, kinds)]
