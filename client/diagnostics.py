"""What --diagnostics measures on a client: its own model after training, before any averaging.

There are two metrics. The second, a client's model on data like its own, is what the papers call
"fine-tuning".
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedmirage.common.data.view import ClientView
from fedmirage.common.learning.task import Meter, SingleLabel, SingleLabelMeter, evaluate
from fedmirage.common.models.base import Model
from fedmirage.common.run import Run
from fedmirage.common.wire.metrics import ON_OWN_LABELS, ON_TEST

OWN = "own_labels"


def local_model_scores(run: Run, model: Model, view: ClientView) -> dict[str, float]:
    """Measure the accuracy on the test set, and on the test set weighted by the client's labels.

    The second metric exists only where a sample has one label.
    """
    data, task = run.dataset, run.task
    samples = run.load(data.test, np.arange(len(data.test)))
    if task.name == SingleLabel.name:
        task = OwnLabels(torch.from_numpy(view.class_counts).to(run.device))
    scores = evaluate(model, run.in_batches(samples), task, run.classes)
    found = {ON_TEST: scores["accuracy"]}
    if OWN in scores:
        found[ON_OWN_LABELS] = scores[OWN]
    return found


@dataclass
class OwnLabels(SingleLabel):
    """The single-label task, with one more metric."""

    # (classes,) Counts of the client's training samples: d in the formula; its scale cancels.
    counts: Tensor

    def meter(self) -> Meter:
        """A new meter at zero."""
        return OwnLabelsMeter(self.counts.double())


class OwnLabelsMeter(SingleLabelMeter):
    """sum_c right_c d_c / sum_c total_c d_c.

    This is the accuracy where a test sample counts as often as the client has its label.
    """

    def __init__(self, counts: Tensor) -> None:
        super().__init__()
        self.counts = counts
        self.right, self.total = torch.zeros_like(counts), torch.zeros_like(counts)  # (classes,)

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch."""
        super().add(logits, labels)
        self.total += torch.bincount(labels, minlength=len(self.counts))
        self.right += torch.bincount(labels[logits.argmax(1) == labels], minlength=len(self.counts))

    def result(self) -> dict[str, float]:
        """Return the metrics; the metric is missing if the test set has none of the labels."""
        weight = float(self.total @ self.counts)
        return super().result() | (
            {OWN: float(self.right @ self.counts) / weight} if weight else {}
        )
