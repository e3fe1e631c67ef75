"""Metrics in detail: by class, by domain, the confusion matrix, the area under the ROC curve.

On skewed data, a single accuracy hides all of this.
"""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.data.set import Task
from fedmirage.common.learning.roc import roc_area

LISTED = 20  # with more classes than this, a round's line does not list the recall per class
DRAWN = 100  # with more classes than this, the confusion matrix is too large to be read
CONFUSION = "confusion"
RECALL = "recall"


class Detail:
    """Counts over the same batches as a meter, and keeps their logits; `result` needs all of them.

    `domains` numbers the domain of every sample of the set, in the order of the batches.
    """

    def __init__(
        self,
        classes: Sequence[str],
        task: Task,
        domains: Tensor | None = None,
        domain_names: Sequence[str] = (),
    ) -> None:
        self.classes, self.single = tuple(classes), task == "single-label"
        self.domains, self.domain_names = domains, tuple(domain_names)
        self.position = 0  # how many samples have been counted
        # Single-label: (classes, classes), rows are true, columns predicted.
        # Multi-label: (2, classes), hits and true labels.
        self.counts: Tensor | None = None
        self.right: Tensor | None = None  # (2, domains): right decisions and samples
        self.seen: list[tuple[Tensor, Tensor]] = []  # logits and labels

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch; the logits are those of the real classes."""
        self.seen.append((logits, labels))
        if self.single:
            size, answers = len(self.classes), logits.argmax(1)
            counted = torch.bincount(labels * size + answers, minlength=size * size)
            counts, right = counted.view(size, size), (answers == labels).double()
        else:
            predicted, true = logits > 0, labels > 0
            counts = torch.stack(((predicted & true).sum(0), true.sum(0)))
            right = (predicted == true).double().mean(1)
        self.counts = counts if self.counts is None else self.counts + counts
        if self.domains is not None:
            inside = F.one_hot(
                self.domains[self.position : self.position + len(labels)], len(self.domain_names)
            ).double()
            sums = torch.stack((right @ inside, inside.sum(0)))
            self.right = sums if self.right is None else self.right + sums
        self.position += len(labels)

    def result(self) -> dict[str, Any]:
        """All metrics by name: `recall` per class, the worst class, and the domains' accuracies.

        The recall of a class that the set lacks is None. With one label per sample there are also
        `confusion`, and `balanced_accuracy` and `macro_f1` over the classes that the set has. `auc`
        is absent if the set has one class only.
        """
        assert self.counts is not None, "count at least one batch"
        parts = [self.counts.double().flatten()]
        parts += [self.right.flatten()] if self.right is not None else []
        values = torch.cat(parts).cpu()  # one wait for the device
        counts = values[: self.counts.numel()].view(self.counts.shape)
        hits, true = (counts.diagonal(), counts.sum(1)) if self.single else counts
        present = true > 0
        recall = (hits / true.clamp(min=1)).tolist()
        pairs = list(zip(recall, present.tolist(), strict=True))
        found: dict[str, Any] = {RECALL: [round(one, 6) if has else None for one, has in pairs]}
        known = [number for number, (_, has) in enumerate(pairs) if has]
        if known:
            worst = min(known, key=lambda number: recall[number])
            found |= {"worst_recall": recall[worst], "worst_class": self.classes[worst]}
        if self.single:
            found["balanced_accuracy"] = statistics.fmean(recall[number] for number in known)
            f1 = 2 * hits / (true + counts.sum(0)).clamp(min=1)
            found["macro_f1"] = f1[present].mean().item()
            found[CONFUSION] = counts.long().tolist()
        logits, labels = map(torch.cat, zip(*self.seen, strict=True))
        area = roc_area(logits, labels)
        found |= {} if area is None else {"auc": area}
        return found | self._domain_scores(values[self.counts.numel() :])

    def _domain_scores(self, values: Tensor) -> dict[str, Any]:
        """Return the accuracy on each domain that has samples, and their mean."""
        if self.right is None:
            return {}
        right, samples = values.view(2, -1).tolist()
        accuracies = {
            name: one / of
            for name, one, of in zip(self.domain_names, right, samples, strict=True)
            if of
        }
        # every domain counts once, however many samples it has
        mean = statistics.fmean(accuracies.values())
        return {"domains": accuracies, "accuracy_domain_mean": mean}


def select_for_round(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The part of an evaluation that a round's line holds; what would make it long is left out."""
    left_out = {CONFUSION}
    if len(evaluation.get(RECALL, ())) > LISTED:
        left_out.add(RECALL)
    return {name: value for name, value in evaluation.items() if name not in left_out}


def select_for_summary(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The part of the last evaluation that only the summary holds."""
    few = len(evaluation.get(CONFUSION, ())) <= DRAWN
    wanted = {RECALL, CONFUSION} if few else {RECALL}
    return {name: evaluation[name] for name in sorted(wanted & evaluation.keys())}
