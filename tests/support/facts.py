"""The facts of a run for tests that have no data: a few images of noise, and any model."""

import numpy as np
import torch

from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.learning.task import TASKS, Task
from fedmirage.common.run import Run
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.manifest import Entry, Manifest, to_arrays


def entries(*arrays: tuple[str, np.ndarray, bool]) -> Manifest:
    """Make a manifest of (name, array, trainable) entries."""
    return Manifest(
        tuple(Entry(name, array.shape, array.dtype, trains) for name, array, trains in arrays)
    )


def make_facts(
    config: RunConfig,
    model: torch.nn.Module | None = None,
    manifest: Manifest | None = None,
    classes: int = 2,
    task: Task | str = "single-label",
    shape: tuple[int, int, int] = (1, 4, 4),
) -> Run:
    """Make a run whose data are one blank image per class, with a model's or any other manifest."""
    labels = np.arange(classes)
    split = Split(np.zeros((classes, *shape), np.uint8), labels)
    dataset = DataSet(
        "noise", split, split, tuple(map(str, labels)), "single-label", (0.5,), (0.5,), ""
    )
    if manifest is None:
        assert model is not None
        manifest = Manifest.of(model)
    initial = [] if model is None else to_arrays(model)
    known = TASKS[task] if isinstance(task, str) else task
    return Run(config, dataset, known, torch.device("cpu"), manifest, initial)
