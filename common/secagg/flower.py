"""A client's update as Flower's SecAgg+ can add it up, and the model that follows from the mean.

Flower's mod multiplies what a client sends by its number of examples over `max_weight`, cuts it at
+-`clipping_range` without a word, and rounds it. So clients send differences to the model that they
got, which are small, and one whose numbers would be cut says so instead. If all clients count
equally, each says that it has `max_weight` examples.
"""

import numpy as np

from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.run import Run
from fedmirage.common.secagg.settings import SecAggFlower
from fedmirage.common.wire.payload import Array, Arrays


def encode_update(run: Run, trained: Arrays, before: Arrays, examples: int) -> tuple[Arrays, int]:
    """Return a client's update as one vector, and the number of examples that it counts for."""
    secagg = run.config.secagg_params
    assert isinstance(secagg, SecAggFlower)
    weight = examples
    if run.config.weighs == "uniform":
        weight = int(secagg.max_weight) if examples else 0
    if weight > secagg.max_weight:
        raise FedmirageError(
            f"it has more examples than secagg's max_weight={secagg.max_weight:g}; raise max_weight"
        )
    moved = [
        (new.astype(np.float64) - old).ravel() for new, old in zip(trained, before, strict=True)
    ]
    update = np.concatenate(moved) if moved else np.zeros(0)
    if not np.isfinite(update).all():
        raise FedmirageError("its update is not finite; lower lr")
    if np.abs(update).max(initial=0) * weight / secagg.max_weight > secagg.clipping_range:
        raise FedmirageError(
            "its update exceeds the range that secagg can mask"
            f" (clipping_range={secagg.clipping_range:g}); raise clipping_range, or lower lr"
        )
    return [update], weight


def add_mean(run: Run, mean: Array, before: Arrays) -> Arrays:
    """Return the model that follows from the mean of the updates."""
    if mean.shape != (sum(array.size for array in before),) or not np.isfinite(mean).all():
        raise WireError("the sum is no update of this model; a client has sent something else")
    ends = np.cumsum([array.size for array in before])
    return [
        (old + mean[end - old.size : end].reshape(old.shape)).astype(entry.dtype or old.dtype)
        for old, end, entry in zip(before, ends, run.shared, strict=True)
    ]
