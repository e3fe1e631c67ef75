"""The server's own model: scores weights on the test set, and writes them as a file that other
people can load."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from flwr.common import Scalar

from common.data.batches import Resident
from common.data.set import DataSet
from common.device import memory_format, place
from common.learning.task import Task, evaluate
from common.memory import local_models
from common.models import Model
from common.settings.config import RunConfig
from common.wire.payload import Arrays
from common.wire.weights import from_arrays, names, parameter_mask, save, to_arrays
from server.strategy.average import shares_of, weighted_mean


@dataclass
class Evaluator:
    """Knows the model and the test set; `positions` are the weights that the clients share."""

    config: RunConfig
    dataset: DataSet
    model: Model
    task: Task
    device: torch.device
    positions: list[int]
    initial: Arrays = field(init=False)
    test: Resident = field(init=False)

    def __post_init__(self) -> None:
        self.initial = to_arrays(self.model)
        place(self.model, self.device, self.config)
        everything = np.arange(len(self.dataset.test))
        self.test = Resident.load(
            self.dataset.test, everything, self.device, memory_format(self.config)
        )

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Of the weights that the clients share."""
        every = names(self.model)
        return tuple(every[position] for position in self.positions)

    @property
    def trainable(self) -> tuple[bool, ...]:
        """Of the weights that the clients share: False for BatchNorm's running statistics."""
        mask = parameter_mask(self.model)
        return tuple(mask[position] for position in self.positions)

    def __call__(
        self, round_number: int, shared: Arrays, config: dict[str, Scalar]
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Flower's `evaluate_fn`: the global model on the whole test set; one that is only shared
        in part has no score."""
        if len(self.positions) < len(self.initial):
            return None
        scores = self.score(shared)
        return scores.pop("loss"), dict(scores)

    def score(self, arrays: Arrays) -> dict[str, float]:
        """Named metrics of a whole model on the test set."""
        from_arrays(self.model, arrays)
        data, layout = self.dataset, memory_format(self.config)
        return evaluate(
            self.model,
            self.test.images,
            self.test.labels,
            data.mean,
            data.std,
            self.task,
            memory_format=layout,
            device=self.device,
            real_classes=len(data.classes),
        )

    def average_of_local_models(self, folder: Path, round_number: int) -> dict[str, float]:
        """FedMD-CG's G.acc for any method: the average, by examples, of every client's last local
        model. Same host only."""
        found = local_models(folder, round_number)
        weights = shares_of([examples for examples, _ in found], "examples")
        if weights is None:
            return {}
        mean = weighted_mean(
            (arrays for _, arrays in found), weights, [array.dtype for array in self.initial]
        )
        return {
            f"average_of_local_models.on_test.by_examples.{name}": value
            for name, value in self.score(mean).items()
        }

    def save(self, shared: Arrays, path: Path) -> None:
        """Weights by name; where only a part is shared, that part; where nothing is, no file (an
        empty one could not be read)."""
        if not self.positions:
            return
        every = names(self.model)
        save(
            {
                every[position]: array
                for position, array in zip(self.positions, shared, strict=True)
            },
            path,
        )
