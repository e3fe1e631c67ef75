"""DynaFed's repair: an average is trained on the synthetic set for a few passes."""

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from fedmirage.common.data.batches import batches
from fedmirage.common.learning.diffaugment import diff_augment
from fedmirage.common.learning.losses import soft_cross_entropy
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.wire.manifest import Manifest, from_arrays, to_arrays
from fedmirage.common.wire.payload import Arrays

# Passes over the unaugmented set that first bring BatchNorm's running statistics up to date.
STATISTICS_PASSES = 3


def refine(
    params: DynaFed,
    model: nn.Module,
    names: tuple[str, ...],
    average: Arrays,
    images: Tensor,
    labels: Tensor,
    generator: torch.Generator,
) -> Arrays | None:
    """Train the average for `epochs` passes of Adam; None if the result is not finite.

    `names` are those of the arrays in a state dict. What is not a floating-point number stays as it
    is. The given model is not changed.
    """
    if not all(np.isfinite(array).all() for array in average):
        return None
    model, named = deepcopy(model).train(), dict(zip(names, average, strict=True))
    manifest = Manifest.of(model)
    start = manifest.name(to_arrays(model)) | named
    from_arrays(model, [start[entry.name].astype(entry.dtype) for entry in manifest])
    norms = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    with torch.no_grad():
        for _ in range(STATISTICS_PASSES if norms else 0):
            for part in torch.split(images, params.batch):
                model(part)
    train(params, model, images, labels, generator)
    learned = manifest.name(to_arrays(model))
    refined = [learned.get(name, array).astype(array.dtype) for name, array in named.items()]
    return refined if all(np.isfinite(array).all() for array in refined) else None


def train(
    params: DynaFed, model: nn.Module, images: Tensor, labels: Tensor, generator: torch.Generator
) -> None:
    """Make `epochs` passes over the set, with a new Adam for every repair."""
    optimizer = torch.optim.Adam(model.parameters(), lr=params.lr)
    for index in batches(len(images), generator, params.batch, epochs=params.epochs):
        chosen = index.to(images.device)
        batch = images[chosen]
        logits = model(diff_augment(batch, generator) if params.augment else batch)[
            :, : labels.shape[1]
        ]
        loss = soft_cross_entropy(logits, labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
