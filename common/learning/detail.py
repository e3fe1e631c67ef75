"""Shows what one accuracy hides on skewed data: recall per class, macro-F1, the confusion matrix,
and the accuracy per domain."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from common.data.set import Task

LISTED = 20  # up to this number of classes, a round's line lists the recall of each
DRAWN = 100  # up to this number of classes, the summary has the confusion matrix
CONFUSION = "confusion"
RECALL = "recall"


class Detail:
    """Counts over the same batches as a meter; only `result` waits for the device.

    `domains` holds the number of every sample's domain, in the order of the batches.
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
        self.samples = 0  # counted so far
        # single-label: (classes, classes), rows are true, columns predicted;
        # multi-label: (2, classes) of hits and true labels
        self.counts: Tensor | None = None
        self.right: Tensor | None = None  # (2, domains): right decisions and samples

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Count one batch; the logits are those of the real classes."""
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
            numbers = self.domains[self.samples : self.samples + len(labels)]
            inside = F.one_hot(numbers, len(self.domain_names)).double()  # (batch, domains)
            sums = torch.stack((right @ inside, inside.sum(0)))
            self.right = sums if self.right is None else self.right + sums
        self.samples += len(labels)

    def result(self) -> dict[str, Any]:
        """Return `recall` per class (None for a class without samples) and the worst class.

        Single-label tasks also have `confusion` and `macro_f1` over the classes that occur; sets
        with several domains have `domains`.
        """
        assert self.counts is not None, "count at least one batch in"
        parts = [self.counts.double().flatten()]
        parts += [self.right.flatten()] if self.right is not None else []
        values = torch.cat(parts).cpu()  # the one wait
        counts = values[: self.counts.numel()].view(self.counts.shape)
        hits, true = (counts.diagonal(), counts.sum(1)) if self.single else counts
        occurs = true > 0
        recall = (hits / true.clamp(min=1)).tolist()
        found: dict[str, Any] = {
            RECALL: [
                round(value, 6) if has else None
                for value, has in zip(recall, occurs.tolist(), strict=True)
            ]
        }
        known = [number for number, has in enumerate(occurs.tolist()) if has]
        if known:
            worst = min(known, key=lambda number: recall[number])
            found |= {"worst_recall": recall[worst], "worst_class": self.classes[worst]}
        if self.single:
            f1 = 2 * hits / (true + counts.sum(0)).clamp(min=1)
            found["macro_f1"] = f1[occurs].mean().item()
            found[CONFUSION] = counts.long().tolist()
        if self.right is not None:
            right, samples = values[self.counts.numel() :].view(2, -1).tolist()
            found["domains"] = {
                name: one / of
                for name, one, of in zip(self.domain_names, right, samples, strict=True)
                if of
            }
        return found


def select_for_round(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an evaluation that goes into a round's line, without what is long."""
    left_out = {CONFUSION}
    if len(evaluation.get(RECALL, ())) > LISTED:
        left_out.add(RECALL)
    return {name: value for name, value in evaluation.items() if name not in left_out}


def select_for_summary(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the last evaluation that only the summary has."""
    few = len(evaluation.get(CONFUSION, ())) <= DRAWN
    wanted = {RECALL, CONFUSION} if few else {RECALL}
    return {name: evaluation[name] for name in sorted(wanted & evaluation.keys())}
