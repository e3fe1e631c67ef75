"""A client's samples on its device, and the batches that the training loop takes from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.set import Split

ENDLESS = 2**62  # steps: passes follow each other for as long as a round lasts


@dataclass(frozen=True)
class Resident:
    """A client's inputs and labels, both on one device.

    Pictures stay bytes, in the memory format of the run; all other inputs are floats that are
    normalised already. Batches are index tensors, so that nothing is copied before it is needed.
    """

    images: Tensor  # (samples, channels, ...)
    labels: Tensor  # (samples,) int64, or (samples, classes) float32 for multi-label sets

    @classmethod
    def load(
        cls,
        split: Split,
        indices: Indices,
        device: torch.device | str = "cpu",
        memory_format: torch.memory_format = torch.contiguous_format,
        mean: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
    ) -> "Resident":
        """Gather the indexed samples once from the (possibly memory-mapped) arrays.

        Mean and standard deviation are for inputs that are no pictures.
        """
        images = torch.from_numpy(np.take(split.images, indices, axis=0)).to(device)
        if images.dtype != torch.uint8:
            images = standardise(images, mean, std)
        labels = torch.from_numpy(np.take(split.labels, indices, axis=0)).to(device)
        dtype = torch.int64 if labels.ndim == 1 else torch.float32
        return cls(images.contiguous(memory_format=memory_format), labels.to(dtype))

    def __len__(self) -> int:
        return len(self.labels)

    def in_order(
        self,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        memory_format: torch.memory_format = torch.channels_last,
        batch_size: int = 512,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all samples once, as batches of normalised images and labels, for evaluation."""
        for start in range(0, len(self), batch_size):
            part = slice(start, start + batch_size)
            yield normalise(self.images[part], mean, std, memory_format), self.labels[part]

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a batch; the images keep their memory format.

        Selecting rows of a flat view is ten times as fast as `images[index]`, and it is the only
        way that keeps channels_last.
        """
        index, contiguous = index.to(self.labels.device), self.images.is_contiguous()
        in_memory_order = self.images if contiguous else self.images.permute(0, 2, 3, 1)
        chosen = in_memory_order.flatten(1).index_select(0, index)
        rows = chosen.view(len(index), *in_memory_order.shape[1:])
        images = rows if contiguous else rows.permute(0, 3, 1, 2)
        return images, self.labels.index_select(0, index)


def batches(
    samples: int,
    generator: torch.Generator,
    batch_size: int,
    *,
    steps: int | None = None,
    epochs: int | None = None,
) -> Iterator[Tensor]:
    """Yield the indices of one batch after another; every pass is shuffled anew.

    Give either `steps` (exactly that many batches, over as many passes as needed) or `epochs` (that
    many passes). A pass keeps its last batch even if it is short.
    """
    if (steps is None) == (epochs is None):
        raise ValueError(
            f"batches(steps={steps}, epochs={epochs}): give exactly one of steps and epochs"
        )
    if samples < 1 or batch_size < 1:
        raise ValueError(
            f"batches(samples={samples}, batch_size={batch_size}): both must be at least 1"
        )
    remaining = steps if steps is not None else (epochs or 0) * -(-samples // batch_size)
    while remaining > 0:
        shuffled = torch.randperm(samples, generator=generator)
        for index in torch.split(shuffled, batch_size)[:remaining]:
            yield index
            remaining -= 1


def standardise(inputs: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Compute (inputs - mean) / std of inputs that are no pictures; a missing value becomes 0."""
    centre, spread = (
        torch.tensor(value, device=inputs.device).view(-1, *[1] * (inputs.ndim - 2))
        for value in (mean, std)
    )
    return ((inputs - centre) / spread).nan_to_num(0.0)


def normalise(
    images: Tensor,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Tensor:
    """Compute (images / 255 - mean) / std as one multiply-add, in the given memory format.

    Floats are normalised already, and stay as they are.
    """
    images = images.contiguous(memory_format=memory_format)
    if images.dtype != torch.uint8:
        return images
    scale, shift = _planes(
        mean, std, images.shape[2], images.shape[3], images.device, memory_format
    )
    return torch.addcmul(shift, images.to(torch.float32), scale)


@lru_cache(maxsize=16)
def _planes(
    mean: tuple[float, ...],
    std: tuple[float, ...],
    height: int,
    width: int,
    device: torch.device,
    memory_format: torch.memory_format,
) -> tuple[Tensor, Tensor]:
    """Return 1/(255 std) and -mean/std with one value per pixel.

    With channels_last, one value per channel would be seven times as slow.
    """
    scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
    shift = -torch.tensor(mean, dtype=torch.float64) / torch.tensor(std, dtype=torch.float64)
    scale_plane, shift_plane = (
        value.to(device, torch.float32)
        .view(1, -1, 1, 1)
        .expand(1, len(mean), height, width)
        .contiguous(memory_format=memory_format)
        for value in (scale, shift)
    )
    return scale_plane, shift_plane
