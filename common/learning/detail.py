"""What one accuracy hides on skewed data: the recall of every class, macro-F1, the confusion
matrix, and the accuracy in every domain."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from common.data.set import Task

LISTED = 20  # a round's line lists the recall of every class for up to so many classes
DRAWN = 100  # the confusion matrix of more classes than this would fill a file that nobody reads
CONFUSION = "confusion"
RECALL = "recall"


class Detail:
    """Counts beside a meter, over the same batches; `result` waits for the device once.

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
        self.seen = 0
        # single-label: (classes, classes), rows are true, columns predicted;
        # multi-label: (2, classes) of hits and true labels
        self.counts: Tensor | None = None
        self.right: Tensor | None = None  # (2, domains): right decisions and samples

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch in; the logits are those of the real classes."""
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
                self.domains[self.seen : self.seen + len(labels)], len(self.domain_names)
            ).double()
            sums = torch.stack((right @ inside, inside.sum(0)))
            self.right = sums if self.right is None else self.right + sums
        self.seen += len(labels)

    def result(self) -> dict[str, Any]:
        """`recall` by class (None for a class that the set lacks), the worst class, for one label
        per sample also `macro_f1` over the classes that the set has and `confusion`; `domains`."""
        assert self.counts is not None, "count at least one batch in"
        parts = [self.counts.double().flatten()]
        parts += [self.right.flatten()] if self.right is not None else []
        values = torch.cat(parts).cpu()  # the one wait
        counts = values[: self.counts.numel()].view(self.counts.shape)
        hits, true = (counts.diagonal(), counts.sum(1)) if self.single else counts
        there = true > 0
        recall = (hits / true.clamp(min=1)).tolist()
        found: dict[str, Any] = {
            RECALL: [
                round(value, 6) if has else None
                for value, has in zip(recall, there.tolist(), strict=True)
            ]
        }
        known = [number for number, has in enumerate(there.tolist()) if has]
        if known:
            worst = min(known, key=lambda number: recall[number])
            found |= {"worst_recall": recall[worst], "worst_class": self.classes[worst]}
        if self.single:
            f1 = 2 * hits / (true + counts.sum(0)).clamp(min=1)
            found["macro_f1"] = f1[there].mean().item()
            found[CONFUSION] = counts.long().tolist()
        if self.right is not None:
            right, samples = values[self.counts.numel() :].view(2, -1).tolist()
            found["domains"] = {
                name: one / of
                for name, one, of in zip(self.domain_names, right, samples, strict=True)
                if of
            }
        return found


def for_round(evaluation: dict[str, Any]) -> dict[str, Any]:
    """What of an evaluation goes into a round's line: without what would make it long."""
    left_out = {CONFUSION}
    if len(evaluation.get(RECALL, ())) > LISTED:
        left_out.add(RECALL)
    return {name: value for name, value in evaluation.items() if name not in left_out}


def for_summary(evaluation: dict[str, Any]) -> dict[str, Any]:
    """What of the last evaluation only the summary has."""
    few = len(evaluation.get(CONFUSION, ())) <= DRAWN
    wanted = {RECALL, CONFUSION} if few else {RECALL}
    return {name: evaluation[name] for name in sorted(wanted & evaluation.keys())}
