"""What a run learns, single-label or multi-label: its loss, its metrics, and the evaluation of a
model on a set."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.errors import DataError
from common.learning.detail import Detail

ALL_OUTPUTS = "accuracy_all_outputs"  # of a widened head, beside the real classes' accuracy


class Meter(Protocol):
    """Adds up over batches, on their device and in float64; `result` waits for the device once."""

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch in."""
        ...

    def result(self) -> dict[str, float]:
        """The metrics by name; `accuracy` and `loss` are always among them."""
        ...


class Task(Protocol):
    """Loss and metrics of one kind of label."""

    name: str
    metrics: tuple[str, ...]  # the names that its meter gives

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The training loss of a batch, a scalar."""
        ...

    def meter(self) -> Meter:
        """A new meter at zero."""
        ...


class SingleLabel:
    """One class a sample: cross-entropy, and the share of samples whose largest logit is the right
    one."""

    name = "single-label"
    metrics: tuple[str, ...] = ("accuracy", "loss")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, mean over the batch; labels are class numbers."""
        return F.cross_entropy(logits, labels)

    def meter(self) -> Meter:
        """A new meter at zero."""
        return SingleLabelMeter()


class MultiLabel:
    """Any number of classes a sample: a yes or no for each, yes where the logit is above 0."""

    name = "multi-label"
    metrics: tuple[str, ...] = (
        "accuracy",
        "loss",
        "C-P",
        "C-R",
        "C-F1",
        "O-P",
        "O-R",
        "O-F1",
        "micro-F1",
    )

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy, mean over batch and classes; labels are (batch, classes) of 0 and
        1."""
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))

    def meter(self) -> Meter:
        """A new meter at zero."""
        return MultiLabelMeter()


TASKS: dict[str, Task] = {task.name: task for task in (SingleLabel(), MultiLabel())}


class SingleLabelMeter:
    """`accuracy` and `loss`."""

    def __init__(self) -> None:
        self.samples = 0
        self.sums: Tensor | None = None  # right answers, losses

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch in."""
        right = (logits.argmax(1) == labels).double().sum()
        loss = F.cross_entropy(logits, labels, reduction="none").double().sum()
        self.samples += len(labels)
        self.sums = _plus(self.sums, torch.stack((right, loss)))

    def result(self) -> dict[str, float]:
        """Means over all samples."""
        right, loss = _values(self.sums)
        return {"accuracy": right / self.samples, "loss": loss / self.samples}


class MultiLabelMeter:
    """The metrics of FedCOG's table 2, with `accuracy` and `loss` over all (sample, class) pairs.

    C-P, C-R, C-F1 are means over the classes. C-F1 is the mean of the classes' F1: the table's is
    not the harmonic mean of its C-P and C-R. O-P, O-R, O-F1 are means over the samples, as the
    table's caption says. micro-F1 pools all decisions, which is what the FLAIR benchmark itself
    calls overall. A ratio without a denominator (nothing predicted, nothing true) counts as 0.
    """

    def __init__(self) -> None:
        self.samples = 0
        self.classes = 0
        self.per_class: Tensor | None = None  # (3, classes): hits, predicted, true
        self.sums: Tensor | None = (
            None  # right decisions, losses, then the samples' precision, recall, F1
        )

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch in."""
        predicted, true = logits > 0, labels > 0
        counts = torch.stack((predicted & true, predicted, true)).double()  # (3, batch, classes)
        right = (predicted == true).double().sum()
        loss = (
            F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
            .double()
            .sum()
        )
        self.samples += len(labels)
        self.classes = logits.shape[1]
        self.per_class = _plus(self.per_class, counts.sum(1))
        self.sums = _plus(
            self.sums, torch.stack((right, loss, *_precision_recall_f1(counts.sum(2)).sum(1)))
        )

    def result(self) -> dict[str, float]:
        """Means over classes (C-), over samples (O-), and over all pairs."""
        right, loss, *by_sample = _values(self.sums)
        assert self.per_class is not None  # set together with the sums
        by_class = _precision_recall_f1(self.per_class).mean(1).tolist()
        micro = _precision_recall_f1(self.per_class.sum(1, keepdim=True))[2].item()
        pairs = self.samples * self.classes
        metrics = {"accuracy": right / pairs, "loss": loss / pairs}
        metrics |= dict(zip(("C-P", "C-R", "C-F1"), by_class, strict=True))
        metrics |= {
            name: value / self.samples
            for name, value in zip(("O-P", "O-R", "O-F1"), by_sample, strict=True)
        }
        return metrics | {"micro-F1": micro}


def evaluate(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    task: Task,
    classes: int | None = None,
    detail: Detail | None = None,
) -> dict[str, float]:
    """The metrics of a model on batches of normalised images and labels; the model is left in the
    modes in which it came.

    `classes` judges the model on its first so many outputs: a head that a method widened answers
    for the real classes alone, and `accuracy_all_outputs` says beside that how often the right one
    is the largest of all. `detail` counts every batch in too.
    """
    meter, wide, empty = task.meter(), None, True
    with _eval_mode(model):
        for images, labels in batches:
            empty = False
            with torch.inference_mode():
                logits = model(images)
                meter.add(logits[:, :classes], labels)
                if detail is not None:
                    detail.add(logits[:, :classes], labels)
                if classes is not None and logits.shape[1] > classes:
                    wide = wide or task.meter()
                    wide.add(logits, labels)
    if empty:
        raise DataError(
            "evaluation: the set holds no samples; give it some, or leave this evaluation out"
        )
    return meter.result() | ({} if wide is None else {ALL_OUTPUTS: wide.result()["accuracy"]})


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode for a while; every submodule gets its own mode back, also one that was frozen
    inside a training model."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _precision_recall_f1(counts: Tensor) -> Tensor:
    """(3, n) of hits, predicted, true to (3, n) of precision, recall, F1; 0 where there is nothing
    to divide by."""
    hits, predicted, true = counts
    return torch.stack(
        (
            hits / predicted.clamp(min=1),
            hits / true.clamp(min=1),
            2 * hits / (predicted + true).clamp(min=1),
        )
    )


def _plus(total: Tensor | None, batch: Tensor) -> Tensor:
    return batch if total is None else total + batch


def _values(sums: Tensor | None) -> list[float]:
    if sums is None:
        raise DataError(
            "evaluation: no batch was counted; add at least one before asking for the result"
        )
    values: list[float] = sums.tolist()
    return values
