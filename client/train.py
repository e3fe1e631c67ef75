"""The one training loop.

Methods act before it, inside it as named terms, and after it. A method that needs a second phase of
training (a generator, after the model) calls the same loop again.

What a client's optimiser knows outlives the round if optimizer-state says "kept". It lies in the
client's memory, and follows its rule: if a reply came too late to count, the optimiser goes on from
the round before. A warm start goes on with the state of its parent, as far as that has one for the
same optimiser and parameter. The learning rate is no part of it. The server tells each client the
last round in which its reply counted. A client that has no memory of the run by then has lost it,
and says so.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from logging import WARNING

import torch
from flwr.common import log
from torch import Tensor

from fedmirage.client.objective import Loss, Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.optimizers import SGD, Adam, AdamW, restore_state, save_state
from fedmirage.common.methods import Method
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.metrics import AFRESH

Objectives = Sequence[Objective[Method]]
PREFIX = "optimizer."  # of what the memory keeps of an optimiser


@dataclass(frozen=True)
class Phase:
    """What one run of the loop trains, on which data, and with which loss."""

    batches: Iterable[tuple[Tensor, Tensor]]  # (inputs, labels) of every step
    optimizer: torch.optim.Optimizer  # over the parameters that move
    terms: Callable[[Step], dict[str, Tensor]]  # named, weighted terms of the loss of one batch
    objectives: Objectives = ()  # those that are called before, in and after every step


@dataclass(frozen=True)
class Trained:
    """The outcome of a phase."""

    steps: int
    samples: int  # how many its steps looked at, repeats included
    terms: dict[str, float]  # the mean of every term


def train(local: LocalRound, objectives: Objectives) -> dict[str, float]:
    """Train `local.model` in place for one round, and return the mean of every term."""
    optimizer = make_optimizer(local.config, local.trainable(), local.lr)
    recall(local, optimizer)
    terms = partial(local_objective, objectives)
    local.model.train()
    trained = train_phase(local, Phase(local.data.batches(local), optimizer, terms, objectives))
    remember(local, optimizer)
    local.steps, local.samples = trained.steps, trained.samples
    return trained.terms


def train_phase(local: LocalRound, phase: Phase) -> Trained:
    """Run the loop: one optimiser step per batch."""
    means = TermMeans()
    steps = samples = 0
    for images, labels in phase.batches:
        step = Step(local, steps, images, labels)
        for objective in phase.objectives:
            objective.before_step(step)
        for objective in phase.objectives:
            step.stages.update(objective.stages)
            extra = objective.extra_images(step)
            if extra is not None:
                step.extra_images[objective.params.name] = extra
        # Every objective may wrap the computation of the gradients, the last one outermost.
        compute: Callable[[], None] = partial(evaluate_loss, step, phase, means)
        for objective in phase.objectives:
            compute = partial(objective.gradients, step, compute)
        compute()
        phase.optimizer.step()
        steps += 1
        samples += len(labels)
        for objective in phase.objectives:
            objective.after_step(step)
    return Trained(steps, samples, means.values())


def evaluate_loss(step: Step, phase: Phase, means: "TermMeans") -> None:
    """Compute the loss of one batch as a sum of named terms, and its gradients."""
    phase.optimizer.zero_grad(set_to_none=True)
    terms = phase.terms(step)
    first, *others = terms.values()
    total = torch.stack([first, *others]).sum() if others else first
    step.loss = total.detach()
    total.backward()  # type: ignore[no-untyped-call]
    means.add(terms)


def local_objective(objectives: Objectives, step: Step) -> dict[str, Tensor]:
    """Compute the task's own loss and the terms that the methods add to it."""
    step.forward()
    # Every objective may wrap the task's loss, the last one outermost.
    task_loss: Loss = partial(step.local.task.loss, labels=step.labels)
    for objective in objectives:
        task_loss = partial(objective.task_loss, step, task_loss)
    terms = {"task": task_loss(step.logits)}
    for objective in objectives:
        if objective.task_weight != 1:
            terms["task"] = terms["task"] * objective.task_weight
        added = objective.terms(step)
        if twice := terms.keys() & added.keys():
            raise FedmirageError(
                f"two methods call a term of the local objective {min(twice)!r}; rename one"
            )
        terms |= added
    return terms


class TermMeans:
    """Running means of named terms, kept on the device so that no step waits for a transfer."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.evaluations = 0

    def add(self, terms: dict[str, Tensor]) -> None:
        """Add one evaluation of the objective."""
        self.evaluations += 1
        for name, term in terms.items():
            self.totals[name] = (
                self.totals[name] + term.detach() if name in self.totals else term.detach()
            )

    def values(self) -> dict[str, float]:
        """Return the means over all evaluations, in which an absent term counts as zero."""
        return {name: float(total) / self.evaluations for name, total in self.totals.items()}


def make_optimizer(config: RunConfig, parameters: list[Tensor], lr: float) -> torch.optim.Optimizer:
    """Make a new optimiser for one round.

    The fused kernels make one pass over the weights, on the CPU too.
    """
    if config.optimizer == "sgd":
        return SGD(
            parameters,
            lr=lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
    kind = Adam if config.optimizer == "adam" else AdamW
    return kind(parameters, lr=lr, weight_decay=config.weight_decay, fused=True)


def recall(local: LocalRound, optimizer: torch.optim.Optimizer) -> None:
    """Let a new optimiser go on where that of this client's last round ended."""
    if local.config.optimizer_state != "kept":
        return
    local.report[AFRESH] = float(local.memory.lost)
    if local.memory.lost:
        text = "round %s: the optimiser of client %s starts afresh: this node has lost its memory"
        log(WARNING, f"{text} of the run", local.number, local.partition)
    saved = [local.memory.get(key) or [] for key in keys(local)]
    for key, arrays, weight in zip(keys(local), saved, local.trainable(), strict=True):
        if bad := [array.shape for array in arrays if array.shape not in ((), weight.shape)]:
            raise FedmirageError(
                f"this client remembers {key!r} with the shape {bad[0]}, but its parameter has"
                f" {tuple(weight.shape)}; start with optimizer-state='fresh'"
            )
    restore_state(optimizer, saved)


def remember(local: LocalRound, optimizer: torch.optim.Optimizer) -> None:
    """Keep what the optimiser knows for this client's next round, or forget an older one's."""
    local.memory.forget(PREFIX)
    if local.config.optimizer_state == "kept":
        for key, arrays in zip(keys(local), save_state(optimizer), strict=True):
            local.memory.put(key, arrays)


def keys(local: LocalRound) -> list[str]:
    """Name what is remembered about every trained parameter."""
    return [f"{PREFIX}{local.config.optimizer}.{name}" for name in local.trained_parameters()]
