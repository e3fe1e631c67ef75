"""DynaFed's repair: an average is trained on the synthetic set for a few passes."""

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from common.data.batches import batches
from common.learning.diffaugment import diff_augment
from common.learning.losses import soft_cross_entropy
from common.methods.dynafed import DynaFed
from common.wire.payload import Arrays

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

    The given model is not changed.
    """
    model = deepcopy(model).train()
    put(model, names, average)
    norms = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    with torch.no_grad():
        for _ in range(STATISTICS_PASSES if norms else 0):
            for part in torch.split(images, params.batch):
                model(part)
    train(params, model, images, labels, generator)
    refined = take(model, names, average)
    return refined if all(np.isfinite(array).all() for array in refined) else None


def train(
    params: DynaFed,
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    generator: torch.Generator,
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


@torch.no_grad()
def put(model: nn.Module, names: tuple[str, ...], arrays: Arrays) -> None:
    """Copy arrays into the entries with these names."""
    state = model.state_dict()
    for name, array in zip(names, arrays, strict=True):
        state[name].copy_(torch.tensor(array))


def take(model: nn.Module, names: tuple[str, ...], like: Arrays) -> Arrays:
    """Return the entries with these names, in the types of `like`.

    Entries that are not floating-point numbers stay as they were in `like`.
    """
    state = model.state_dict()
    return [
        (
            np.array(state[name].cpu().numpy(), dtype=array.dtype, order="C")
            if state[name].is_floating_point()
            else array
        )
        for name, array in zip(names, like, strict=True)
    ]
