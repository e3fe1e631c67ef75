"""Distillation without data: trains an averaged pair of generator and classifier by the clients'.

FedMD-CG and FedCG share such pairs. Inputs are drawn, so that the server needs no data: noise, and
labels from the distribution of the federation.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedmirage.common.learning.losses import divergences
from fedmirage.common.models.base import Model
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import Arrays

Compare = Callable[[Tensor, Tensor], Tensor]  # logits of student and teacher to (batch,)


class Pair(nn.Module):
    """A classifier on a generator of features; its arrays are those that clients send."""

    def __init__(self, classifier: nn.Module, generator: nn.Module, classes: int) -> None:
        super().__init__()
        self.classifier, self.generator, self.classes = classifier, generator, classes

    @classmethod
    def of(cls, model: Model, arrays: Arrays, classes: int) -> "Pair":
        """Copy the two parts of a model, and give them these weights."""
        generator = model.get_submodule("generator")
        pair = cls(deepcopy(model.classifier), deepcopy(generator), classes).requires_grad_(True)
        from_arrays(pair, arrays)
        return pair

    def classify(self, features: Tensor) -> Tensor:
        """The logits of the real classes; the head may be wider."""
        logits: Tensor = self.classifier(features)
        return logits[:, : self.classes]


@dataclass(frozen=True)
class Teachers:
    """The clients' pairs of a round, in partition order."""

    pairs: list[Pair]  # frozen, in evaluation mode
    weights: list[float]  # each client's weight in the average
    shares: Tensor  # tau: (clients, classes), each client's share in all samples of a class


@dataclass(frozen=True)
class GeneratorInputs:
    """What goes into the generators in one step."""

    labels: Tensor  # (batch,)
    noise: Tensor  # (batch, noise_dim), of the global generator
    noises: list[Tensor]  # the same for every client's generator


def compare_by_divergence(temperature: float, reverse: bool) -> Compare:
    """KL(teacher || student) of every sample, or in reverse."""
    return lambda student, teacher: divergences(student, teacher, temperature, reverse)


def crossed_loss(
    pair: Pair,
    teachers: Teachers,
    inputs: GeneratorInputs,
    compare: Compare,
    compare_crossed: Compare,
) -> Tensor:
    """L1 + L2 + L3 of FedMD-CG's equations 10 and 11.

    A client's answers are those of its own pair. The averaged pair learns them (L1), its classifier
    on the client's features (L2), its generator under the client's classifier (L3). For a label,
    clients count by their share in it.
    """
    features = pair.generator(inputs.noise, inputs.labels)  # (batch, feature_dim)
    answers, losses = pair.classify(features), []
    for teacher, shares, noise in zip(teachers.pairs, teachers.shares, inputs.noises, strict=True):
        with torch.no_grad():
            theirs = teacher.generator(noise, inputs.labels)
            taught = teacher.classify(theirs)  # (batch, classes)
        apart = (
            compare(answers, taught)
            + compare(pair.classify(theirs), taught)
            + compare_crossed(teacher.classify(features), taught)
        )
        losses.append((shares[inputs.labels] * apart).mean())
    return torch.stack(losses).sum()


def mean_logits_loss(
    pair: Pair, teachers: Teachers, inputs: GeneratorInputs, compare: Compare
) -> Tensor:
    """FedCG's loss: the averaged pair learns the weighted mean of the clients' logits."""
    with torch.no_grad():
        taught = [
            weight * teacher.classify(teacher.generator(noise, inputs.labels))
            for teacher, weight, noise in zip(
                teachers.pairs, teachers.weights, inputs.noises, strict=True
            )
        ]
    answers = pair.classify(pair.generator(inputs.noise, inputs.labels))
    return compare(answers, torch.stack(taught).sum(0)).mean()


def distil(
    pair: Pair, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer, steps: int
) -> tuple[Arrays, float] | None:
    """Train a pair; return its arrays and the mean loss, or None if either is not finite.

    The pair is in training mode, so that batch norm estimates its running statistics anew.
    """
    pair.train()
    total = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total = total + value.detach().cpu()
    finite = all(bool(torch.isfinite(tensor).all()) for tensor in pair.state_dict().values())
    if not (finite and torch.isfinite(total)):
        return None
    return to_arrays(pair), float(total) / steps
