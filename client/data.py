"""The samples that a client trains on in a round, and the batches made of them: on the device,
without per-sample Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from client.objective import LocalRound
from common.data.batches import Resident, normalise
from common.device import memory_format
from common.learning.augment import AUGMENTATIONS, augment, mean_bytes


@dataclass
class LocalData:
    """Resident images and labels. Bytes are augmented and normalised batch by batch; floats are
    taken as they are."""

    resident: Resident  # uint8 pixels, or float pixels that are normalised already (virtual data)
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_counts: npt.NDArray[np.int64]  # (classes,) of the client's real training samples
    accompanied: bool = (
        False  # by images of a method in every step: then a batch of one is not alone in its pass
    )

    def __len__(self) -> int:
        return len(self.resident)

    def prepare(
        self, images: Tensor, name: str, generator: torch.Generator, layout: torch.memory_format
    ) -> Tensor:
        """Bytes to the floats that a model sees, varied by the augmentation of this name."""
        if images.dtype != torch.uint8:
            return images
        varied = augment(images, AUGMENTATIONS[name], generator, mean_bytes(self.mean))
        return normalise(varied, self.mean, self.std, layout)

    def batches(self, local: LocalRound) -> Iterator[tuple[Tensor, Tensor]]:
        """(images, labels) of every step of the round."""
        config = local.config
        order, varied = local.generator("batches"), local.generator("augment")
        layout = memory_format(config)
        alone_spoils = has_batch_statistics(local.model) and not self.accompanied
        steps, epochs = config.local_steps or None, config.local_epochs or None
        if alone_spoils and min(len(self), config.batch_size) == 1:
            return
        # One sample has no variance to normalise by, so a leftover of one is passed over; of each
        # pass that is at most one batch.
        asked = 2 * steps if steps and alone_spoils else steps
        indices = self.resident.batches(order, config.batch_size, steps=asked, epochs=epochs)
        for index in islice(
            (index for index in indices if len(index) > 1 or not alone_spoils), steps
        ):
            images, labels = self.resident.take(index)
            yield self.prepare(images, config.augment, varied, layout), labels


def has_batch_statistics(model: nn.Module) -> bool:
    """Whether a model normalises over the batch, and so cannot train on a batch of one."""
    return any(isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) for module in model.modules())
