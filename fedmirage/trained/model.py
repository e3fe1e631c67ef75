"""A model file that was loaded: the network, the facts about it, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models import files
from fedmirage.common.models.base import Model
from fedmirage.common.models.files import ModelFacts

if TYPE_CHECKING:
    from pandas import DataFrame

BATCH = 256  # samples that the network sees at a time


class TrainedModel(NamedTuple):
    """A trained network and the facts about it: `model, facts = fedmirage.load_model(path)`."""

    network: Model  # in evaluation mode, on the CPU
    facts: ModelFacts

    def predict(
        self, inputs: str | Path | Sequence[str | Path], top: int = 1, encoder: str = ""
    ) -> DataFrame:
        """Predict the classes of inputs in files, read and normalised as in training.

        The frame has a row per input and, for each of the `top` most probable classes, a column
        `class` and a column `probability` (numbered if there are several).
        """
        from fedmirage.trained.prediction import as_frame, predict

        listed = [inputs] if isinstance(inputs, str | Path) else inputs
        self.check_top(top)
        return as_frame(self, list(predict(self, listed, encoder)), top)

    @torch.inference_mode()
    def compute_logits(self, inputs: npt.NDArray[Any]) -> Tensor:
        """Compute one number per class in double precision, without what a method has added.

        Inputs are as read from files. They are normalised batch by batch, and may be mapped from a
        file that does not fit into memory.
        """
        starts = range(0, len(inputs), BATCH)
        batches = (torch.from_numpy(np.array(inputs[start : start + BATCH])) for start in starts)
        parts = [self.network(self.facts.normalise(batch)) for batch in batches]
        return torch.cat(parts)[:, : len(self.facts.classes)].double()

    def to_probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits into probabilities; with several labels per sample, each has its own."""
        return logits.softmax(1) if self.facts.task == "single-label" else logits.sigmoid()

    def check_top(self, top: int) -> None:
        """Refuse to show more classes than there are."""
        if not 1 <= top <= len(self.facts.classes):
            raise ConfigurationError(
                f"top={top}: this model has {len(self.facts.classes)} classes; write a number from"
                f" 1 to {len(self.facts.classes)}"
            )


def load_trained(path: str | Path, model: str = "", dataset: str = "") -> TrainedModel:
    """Load a model file; `model` names somebody's own network, `dataset` says how to read inputs.

    Both are for what a file cannot decide (what is imported) or does not say (older files).
    """
    network, facts = files.load_model(path, model)
    return TrainedModel(network, facts.read_as(dataset) if dataset else facts)
