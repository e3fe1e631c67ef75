"""A client with pictures of noise, for the tests of Distil."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmirage.client.data import LocalData
from fedmirage.client.methods.distil.matching import RealImages
from fedmirage.client.round import LocalClient
from fedmirage.common.data.batches import Resident
from fedmirage.common.data.view import count_classes
from fedmirage.common.settings.config import configure
from tests.support.facts import make_facts


def local_client(
    labels: list[int],
    shape: tuple[int, int, int] = (1, 6, 6),
    classes: int = 4,
    partition: int = 0,
    images: Tensor | None = None,
    **settings: Any,
) -> LocalClient:
    """Make a client with these labels; each class has a brightness of its own, with noise."""
    targets = torch.tensor(labels)
    noise = torch.randint(64, (len(labels), *shape), generator=torch.Generator().manual_seed(1))
    pixels = (noise + 45 * targets.view(-1, 1, 1, 1)).to(torch.uint8) if images is None else images
    config = configure({"model": "mlp(hidden=8)", **settings})
    counts = count_classes(targets.numpy().astype(np.int64), classes)
    each = (0.5,) * shape[0]
    return LocalClient(
        partition=partition,
        run=make_facts(config, torch.nn.Linear(1, 1), classes=classes, shape=shape),
        data=LocalData(Resident(pixels, targets), each, each, counts),
    )


def real_images(pixels: list[list[int]], labels: list[int]) -> RealImages:
    """Make real images of one row of pixels each, black 0 at -1 and white 255 at 1."""
    images = torch.tensor(pixels, dtype=torch.uint8)[:, None, None, :]
    return RealImages(
        Resident(images, torch.tensor(labels)), (0.5,), (0.5,), torch.contiguous_format
    )
