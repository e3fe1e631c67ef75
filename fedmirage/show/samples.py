"""Draws samples of a data set, for `fedmirage datasets NAME --picture FILE`."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import FedmirageError
from fedmirage.common.image_grid import draw_grid

COLUMNS = 20  # classes that are shown; there is no room for more


def draw_samples(dataset: DataSet, path: Path) -> Path:
    """Draw the first training sample of every class, one row per domain; what is absent is white.

    A set without domains has one row.
    """
    if dataset.task != "single-label":
        raise FedmirageError(
            f"{dataset.name}: every sample has several labels; --picture needs a set with one each"
        )
    classes, channels = dataset.classes[:COLUMNS], dataset.shape[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = find_samples(dataset, len(classes))
    draw_grid(rows, [0.0] * channels, [1.0] * channels, classes).save(path)
    return path


def find_samples(dataset: DataSet, classes: int) -> dict[str, list[Tensor | None]]:
    """Find the first sample of every class by domain, with values from 0 to 1."""
    train = dataset.train
    domains = train.columns.get("domain", np.zeros(len(train), np.int64))

    def find(domain: int, label: int) -> Tensor | None:
        found = np.flatnonzero((domains == domain) & (train.labels == label))
        return torch.tensor(train.images[found[0]]) / 255 if len(found) else None

    return {
        name: [find(domain, label) for label in range(classes)]
        for domain, name in enumerate(dataset.domains or ("",))
    }
