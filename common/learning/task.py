"""The task of a run, single-label or multi-label: its loss, its metrics, and the evaluation."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedmirage.common.device import in_32_bits
from fedmirage.common.errors import DataError
from fedmirage.common.learning.detail import Detail

ALL_OUTPUTS = "accuracy_all_outputs"  # of a widened head, reported with that of the real classes


class Meter(Protocol):
    """Adds up over batches, on their device and in float64; only `result` waits for the device."""

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch."""

    def result(self) -> dict[str, float]:
        """Return the metrics by name; `accuracy` and `loss` are always among them."""


class Task(Protocol):
    """Loss and metrics of one kind of label."""

    name: str
    metrics: tuple[str, ...]  # the names that its meter returns

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the training loss of a batch, a scalar."""

    def meter(self) -> Meter:
        """Return a new meter at zero."""


class SingleLabel:
    """One class per sample: cross-entropy; a sample is right if its class has the largest logit."""

    name = "single-label"
    metrics: tuple[str, ...] = ("accuracy", "loss")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy, mean over the batch; labels are class numbers."""
        return F.cross_entropy(logits, labels)

    def meter(self) -> Meter:
        """Return a new meter at zero."""
        return SingleLabelMeter()


class MultiLabel:
    """Any number of classes per sample: yes or no for each, yes where its logit is above 0."""

    name = "multi-label"
    by_class: tuple[str, ...] = ("C-P", "C-R", "C-F1")
    by_sample: tuple[str, ...] = ("O-P", "O-R", "O-F1")
    metrics: tuple[str, ...] = ("accuracy", "loss", *by_class, *by_sample, "micro-F1")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the binary cross-entropy, mean over batch and classes.

        Labels are (batch, classes) of 0 and 1.
        """
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))

    def meter(self) -> Meter:
        """Return a new meter at zero."""
        return MultiLabelMeter()


TASKS: dict[str, Task] = {task.name: task for task in (SingleLabel(), MultiLabel())}


class SingleLabelMeter:
    """`accuracy` and `loss`."""

    def __init__(self) -> None:
        self.samples = 0
        self.sums: Tensor | None = None  # right answers, losses

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch."""
        right = (logits.argmax(1) == labels).double().sum()
        loss = F.cross_entropy(logits, labels, reduction="none").double().sum()
        self.samples += len(labels)
        self.sums = _plus(self.sums, torch.stack((right, loss)))

    def result(self) -> dict[str, float]:
        """Return the means over all samples."""
        right, loss = _values(self.sums)
        return {"accuracy": right / self.samples, "loss": loss / self.samples}


class MultiLabelMeter:
    """The metrics of FedCOG's table 2, with `accuracy` and `loss` over all (sample, class) pairs.

    C-P, C-R, C-F1 are means over the classes. C-F1 is the mean of the classes' F1, because the
    table's is not the harmonic mean of its C-P and C-R. O-P, O-R, O-F1 are means over the samples,
    as the table's caption says. micro-F1 pools all decisions, which the FLAIR benchmark itself
    calls overall. A ratio with denominator 0 (nothing predicted, nothing true) counts as 0.
    """

    def __init__(self) -> None:
        self.samples = 0
        self.classes = 0
        self.per_class: Tensor | None = None  # (3, classes): hits, predicted, true
        # right decisions, losses, then the samples' precision, recall, F1
        self.sums: Tensor | None = None

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch."""
        predicted, true = logits > 0, labels > 0
        counts = torch.stack((predicted & true, predicted, true)).double()  # (3, batch, classes)
        right = (predicted == true).double().sum()
        wanted = labels.to(logits.dtype)
        losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        self.samples += len(labels)
        self.classes = logits.shape[1]
        self.per_class = _plus(self.per_class, counts.sum(1))
        by_sample = _precision_recall_f1(counts.sum(2)).sum(1)
        self.sums = _plus(self.sums, torch.stack((right, losses.double().sum(), *by_sample)))

    def result(self) -> dict[str, float]:
        """Return the means over classes (C-), over samples (O-), and over all pairs."""
        right, loss, *by_sample = _values(self.sums)
        assert self.per_class is not None  # set together with the sums
        by_class = _precision_recall_f1(self.per_class).mean(1).tolist()
        micro = _precision_recall_f1(self.per_class.sum(1, keepdim=True))[2].item()
        pairs = self.samples * self.classes
        metrics = {"accuracy": right / pairs, "loss": loss / pairs}
        metrics |= dict(zip(MultiLabel.by_class, by_class, strict=True))
        means = [value / self.samples for value in by_sample]
        metrics |= dict(zip(MultiLabel.by_sample, means, strict=True))
        return metrics | {"micro-F1": micro}


def evaluate(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    task: Task,
    classes: int | None = None,
    detail: Detail | None = None,
) -> dict[str, float]:
    """Return the metrics of a model on batches of normalised images and labels.

    The metrics use only the first `classes` outputs, so that a head which a method widened is
    judged on the real classes; `accuracy_all_outputs` then says how often the right class has the
    largest of all outputs. `detail` counts every batch too. The model keeps its modes.
    """
    meter, wide = task.meter(), None
    with _eval_mode(model):
        for images, labels in batches:
            with torch.inference_mode():
                logits = in_32_bits(model(images))
                meter.add(logits[:, :classes], labels)
                if detail is not None:
                    detail.add(logits[:, :classes], labels)
                if classes is not None and logits.shape[1] > classes:
                    wide = wide or task.meter()
                    wide.add(logits, labels)
    return meter.result() | ({} if wide is None else {ALL_OUTPUTS: wide.result()["accuracy"]})


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode, and afterwards give every submodule its own mode back.

    A submodule may have been in eval mode inside a training model.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _precision_recall_f1(counts: Tensor) -> Tensor:
    """Turn (3, n) of hits, predicted, true into (3, n) of precision, recall, F1; 0/0 is 0."""
    hits, predicted, true = counts
    precision, recall = hits / predicted.clamp(min=1), hits / true.clamp(min=1)
    return torch.stack((precision, recall, 2 * hits / (predicted + true).clamp(min=1)))


def _plus(total: Tensor | None, batch: Tensor) -> Tensor:
    return batch if total is None else total + batch


def _values(sums: Tensor | None) -> list[float]:
    if sums is None:
        raise DataError(
            "evaluation: no batch was counted, because the set holds no samples; give it some, or"
            " leave this evaluation out"
        )
    values: list[float] = sums.tolist()
    return values
