"""What a slip in the published code makes of the generator's batches, for variant="code".

The code's loaders never shuffle, so that a client meets the same batches in every pass. It caches
those that it meets, except short ones and those whose labels add up to the same number as a cached
batch's, and never empties the cache. In every round the generator makes one pass over all of it,
and its gradients are not set to zero between the batches.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fedmirage.client.round import LocalRound
from fedmirage.common.learning.optimizers import Adam
from fedmirage.common.seeds import torch_generator


class Accumulating(Adam):
    """An Adam whose gradients add up from step to step."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Leave the gradients as they are."""


def cached_batches(local: LocalRound) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches that the cache would hold at the end of this round.

    They follow from the seed, the client and the number of the round, so that nothing has to be
    stored. Images are augmented once, as they were when the code cached them.
    """
    data, config = local.data, local.config
    order = torch_generator(config.seed, "fedmd-cg.cache", local.partition)
    varied = torch_generator(config.seed, "fedmd-cg.cache-augment", local.partition)
    batches = torch.split(torch.randperm(len(data), generator=order), config.batch_size)
    met = local.steps * local.number if config.local_steps else len(batches)
    sums: set[int] = set()
    for index in batches[:met]:
        images, labels = data.resident.take(index)
        images = data.prepare(images, config.augment, varied, local.run.memory_format)
        total = int(labels.sum())
        if len(index) == len(batches[0]) and total not in sums:
            sums.add(total)
            yield images, labels
