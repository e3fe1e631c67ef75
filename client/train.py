"""The one training loop. Methods act before it, inside it as named terms, and after it."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from client.objective import LocalRound, Objective, Step
from common.errors import FedmirageError
from common.methods import Method
from common.settings.config import RunConfig

Objectives = Sequence[Objective[Method]]


def train(local: LocalRound, objectives: Objectives) -> tuple[int, dict[str, float]]:
    """Train `local.model` in place for one round; returns the steps made and the mean of every
    term."""
    optimizer = make_optimizer(local.config, local.trainable(), local.lr)
    means = TermMeans()
    steps = 0
    local.model.train()
    for images, labels in local.data.batches(local):
        step = Step(local, steps, images, labels)
        for objective in objectives:
            step.stages.update(objective.stages)
            extra = objective.extra_images(step)
            if extra is not None:
                step.extra_images[objective.params.name] = extra
        compute: Callable[[], None] = partial(evaluate_loss, step, objectives, optimizer, means)
        for objective in objectives:
            compute = partial(objective.gradients, step, compute)
        compute()
        optimizer.step()
        steps += 1
        local.samples += len(labels)
        for objective in objectives:
            objective.at(step)
    return steps, means.values()


def evaluate_loss(
    step: Step, objectives: Objectives, optimizer: torch.optim.Optimizer, means: "TermMeans"
) -> None:
    """The local objective of one batch as a sum of named terms, and its gradients."""
    optimizer.zero_grad(set_to_none=True)
    step.forward()
    terms = {"task": step.local.task.loss(step.logits, step.labels)}
    for objective in objectives:
        if objective.task_weight != 1:
            terms["task"] = terms["task"] * objective.task_weight
        added = objective.terms(step)
        if terms.keys() & added.keys():
            raise FedmirageError(
                "two methods call a term of the local objective"
                f" {next(iter(terms.keys() & added.keys()))!r}"
            )
        terms |= added
    total = torch.stack(list(terms.values())).sum() if len(terms) > 1 else terms["task"]
    step.loss = total.detach()
    total.backward()  # type: ignore[no-untyped-call]
    means.add(terms)


class TermMeans:
    """Running means of named terms, kept on the device so that no step waits for a number."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.evaluations = 0

    def add(self, terms: dict[str, Tensor]) -> None:
        """Count one evaluation of the objective."""
        self.evaluations += 1
        for name, term in terms.items():
            self.totals[name] = (
                self.totals[name] + term.detach() if name in self.totals else term.detach()
            )

    def values(self) -> dict[str, float]:
        """Mean over all evaluations; a term that was absent counts as zero."""
        return {name: float(total) / self.evaluations for name, total in self.totals.items()}


def make_optimizer(config: RunConfig, parameters: list[Tensor], lr: float) -> torch.optim.Optimizer:
    """A fresh optimiser for one round; the fused kernels do one pass over the weights, on the CPU
    too."""
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=lr, weight_decay=config.weight_decay, fused=True)
