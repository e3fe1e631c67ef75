"""What --diagnostics measures on a client: how good its own model is, right after training and
before any averaging.

The papers' "fine-tuning" rows are the second of these figures: a client's model on data that look
like its own.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from common.data.batches import Resident
from common.data.view import ClientView
from common.learning.task import Meter, SingleLabel, SingleLabelMeter, evaluate
from common.models import Model
from common.run import Run
from common.wire.figures import ON_OWN_LABELS, ON_TEST

OWN = "own_labels"


def local_model_scores(run: Run, model: Model, view: ClientView) -> dict[str, float]:
    """Accuracy on the whole test set and, where a sample has one label, on the test set weighted to
    the client's own labels."""
    data, task = run.dataset, run.task
    samples = Resident.load(data.test, np.arange(len(data.test)), run.device, run.memory_format)
    if task.name == SingleLabel.name:
        task = OwnLabels(torch.from_numpy(view.class_counts).to(run.device))
    scores = evaluate(model, run.in_batches(samples), task, run.classes)
    found = {ON_TEST: scores["accuracy"]}
    if OWN in scores:
        found[ON_OWN_LABELS] = scores[OWN]
    return found


@dataclass
class OwnLabels(SingleLabel):
    """The single-label task, with one figure more."""

    # (classes,) of the client's training samples: d in the formula, up to a factor that cancels
    counts: Tensor

    def meter(self) -> Meter:
        """A new meter at zero."""
        return OwnLabelsMeter(self.counts.double())


class OwnLabelsMeter(SingleLabelMeter):
    """sum_c right_c d_c / sum_c total_c d_c: the accuracy on test samples that count as often as
    the client has their label."""

    def __init__(self, counts: Tensor) -> None:
        super().__init__()
        self.counts = counts
        self.right, self.total = torch.zeros_like(counts), torch.zeros_like(counts)  # (classes,)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch in."""
        super().add(logits, labels)
        self.total += torch.bincount(labels, minlength=len(self.counts))
        self.right += torch.bincount(labels[logits.argmax(1) == labels], minlength=len(self.counts))

    def result(self) -> dict[str, float]:
        """Without the figure where the test set has none of the client's labels."""
        weight = float(self.total @ self.counts)
        return super().result() | (
            {OWN: float(self.right @ self.counts) / weight} if weight else {}
        )
