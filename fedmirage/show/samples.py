"""Draws samples of a data set, for `fedmirage datasets NAME --picture FILE`."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import FedmirageError

COLUMNS = 20  # classes that are shown; there is no room for more
CELL, LETTER = 0.6, 0.09  # inches per sample, and per letter of a domain's name


def draw_samples(dataset: DataSet, path: Path) -> Path:
    """Draw the first training sample of every class, one row per domain; what is absent is white.

    A set without domains has one row.
    """
    if dataset.task != "single-label":
        raise FedmirageError(
            f"{dataset.name}: every sample has several labels; --picture needs a set with one each"
        )
    classes = dataset.classes[:COLUMNS]
    sheet = _arrange(dataset, len(classes))
    side, rows = dataset.shape[1], sheet.shape[0] // dataset.shape[1]
    names = dataset.domains or ("",)
    margin = 0.3 + LETTER * max(map(len, names))
    figure = Figure(figsize=(margin + CELL * len(classes), 0.5 + CELL * rows), layout="constrained")
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest")
    axes.set_xticks((np.arange(len(classes)) + 0.5) * side - 0.5, classes)
    axes.set_yticks((np.arange(rows) + 0.5) * side - 0.5, names)
    axes.tick_params(length=0, labelsize=8, labelrotation=0)
    axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.spines[:].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _arrange(dataset: DataSet, classes: int) -> npt.NDArray[np.uint8]:
    """Put samples side by side: (rows * height, classes * width, 3)."""
    train = dataset.train
    domain = train.columns.get("domain", np.zeros(len(train), np.int64))
    rows = []
    for row in range(max(1, len(dataset.domains))):
        cells = []
        for label in range(classes):
            found = np.flatnonzero((domain == row) & (train.labels == label))[:1]
            blank = np.full((1, *dataset.shape), 255, np.uint8)
            sample = train.images[found] if len(found) else blank
            cells.append(np.broadcast_to(sample[0], (3, *dataset.shape[1:])).transpose(1, 2, 0))
        rows.append(np.concatenate(cells, axis=1))
    return np.concatenate(rows)
