"""The server's own model: scores weights on the test set, and writes model files."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from flwr.common import Scalar
from torch import Tensor

from fedmirage.common.data.batches import Resident
from fedmirage.common.data.set import Split
from fedmirage.common.device import arithmetic, place
from fedmirage.common.learning.detail import Detail
from fedmirage.common.learning.task import evaluate
from fedmirage.common.memory import local_models
from fedmirage.common.models.base import Model
from fedmirage.common.models.files import ModelFacts, collect_facts, save_model
from fedmirage.common.run import Run
from fedmirage.common.wire.manifest import from_arrays
from fedmirage.common.wire.metrics import AVERAGE_SCORES, FURTHER_SCORES
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import shares_of, weighted_mean


@dataclass
class Evaluator:
    """Holds the run, the server's own copy of the model, and the test set."""

    run: Run
    model: Model
    test: Resident = field(init=False)
    domains: Tensor | None = field(init=False)  # domain number of every test sample, if any

    def __post_init__(self) -> None:
        place(self.model, self.run.device, self.run.config)
        self.use(self.run.dataset.test)

    def use(self, split: Split) -> None:
        """Make a split the test set."""
        indices = np.arange(len(split))
        self.test = self.run.load(split, indices)
        column = split.columns.get("domain")
        self.domains = None if column is None else torch.tensor(column, device=self.run.device)

    def __call__(
        self, round_number: int, shared: Arrays, config: dict[str, Scalar]
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Evaluate the global model in detail on the whole test set (Flower's `evaluate_fn`).

        A model that is only shared in part has no score.
        """
        if not self.run.config.shares_all:
            return None
        data = self.run.dataset
        detail = Detail(data.classes, data.task, self.domains, data.domains)
        whole = self.run.shared.place(shared, self.run.initial, self.run.manifest)
        scores = self.score(whole, detail)
        return scores.pop("loss"), {**scores, **detail.result()}

    def score(self, arrays: Arrays, detail: Detail | None = None) -> dict[str, float]:
        """Return the metrics of a whole model on the test set."""
        from_arrays(self.model, arrays)
        run, batches = self.run, self.run.in_batches(self.test)
        with arithmetic(run.config, run.device):
            return evaluate(self.model, batches, run.task, run.classes, detail)

    def average_of_local_models(self, folder: Path, round_number: int) -> dict[str, float]:
        """Score the average, by examples, of every client's last local model.

        This is FedMD-CG's G.acc for any method. It needs the clients' memories on the same host.
        """
        found = local_models(folder, round_number)
        weights = shares_of([examples for examples, _ in found], "examples")
        if weights is None:
            return {}
        types = [array.dtype for array in self.run.initial]
        mean = weighted_mean((arrays for _, arrays in found), weights, types)
        detail = Detail(self.run.dataset.classes, self.run.dataset.task)
        scores = self.score(mean, detail)
        more = detail.result()
        scores |= {name: more[name] for name in FURTHER_SCORES if name in more}
        return {f"{AVERAGE_SCORES}{name}": value for name, value in scores.items()}

    def save(self, shared: Arrays, path: Path, round_number: int) -> None:
        """Write the shared weights by name, with the facts that are needed to use them.

        If nothing is shared, there is no file, because an empty one could not be read.
        """
        if len(self.run.shared):
            facts = replace(self.facts, round=round_number)
            save_model(self.run.shared.name(shared), path, facts)

    @cached_property
    def facts(self) -> ModelFacts:
        """The facts that every model file of this run contains, as of the start of the run."""
        parts = tuple(dict.fromkeys(entry.part for entry in self.run.shared))
        return collect_facts(self.run, parts)
