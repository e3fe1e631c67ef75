"""FedMD-CG on the client: learn from the global generator, then teach the local one.

Declared in common/methods/fedmd_cg.py. In the second phase of a round, the generator learns
to imitate the extractor (eq. 9).
"""

from copy import deepcopy
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedmirage.client.methods._pairs import frozen_network, generated_loss, say_how_it_starts
from fedmirage.client.methods.fedmd_cg.cache import Accumulating, cached_batches
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.client.train import Phase, train_phase
from fedmirage.common.learning.diversity import DIVERSITY, mean_squares, norms
from fedmirage.common.learning.losses import divergences, feature_distance
from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.methods._labels import COUNTS, SHARES
from fedmirage.common.methods.fedmd_cg import GENERATOR, FedMdCg
from fedmirage.common.models.generators import FeatureMeans, draw_labels, draw_noise
from fedmirage.common.wire.manifest import from_arrays
from fedmirage.common.wire.payload import Arrays, Sections

TEACHER = "fedmd-cg.teacher"  # in the client's memory: its moving average of G


class FedMdCgClient(Objective[FedMdCg]):
    """Holds the global generator for the length of a round."""

    teacher: nn.Module  # G, frozen
    received: Arrays  # the arrays of G as they came
    shares: npt.NDArray[np.float64]  # p(y)
    ramp: float  # the factor of l1, l2 and l3 in this round
    same: Tensor  # G(z, y) with the labels of the real batch
    free: Tensor  # G(z, y') with labels from p(y)
    labels: Tensor  # y'

    def begin(self, local: LocalRound) -> None:
        """Take a frozen copy of G; the client's own generator is never overwritten."""
        self.ramp = self.params.ramp(local.number, local.config.rounds)
        (self.shares,) = local.received[SHARES]
        shared = local.run.shared
        self.received = shared.only((GENERATOR,)).pick(local.broadcast, shared)
        self.teacher = deepcopy(local.model.get_submodule(GENERATOR)).eval().requires_grad_(False)
        from_arrays(self.teacher, self.average(local))
        self.noise = local.generator("fedmd-cg.noise")
        self.drawn = local.generator("fedmd-cg.labels")
        say_how_it_starts(local, self.params.name, "the extractor and the generator")

    def average(self, local: LocalRound) -> Arrays:
        """G as it came or, with moving_average, mixed with this client's last copy of it."""
        share = self.params.moving_average
        if not share:
            return self.received
        last = local.memory.get(TEACHER) or self.received
        mixed = [
            (share * old + (1 - share) * new).astype(new.dtype)
            for old, new in zip(last, self.received, strict=True)
        ]
        local.memory.put(TEACHER, mixed)
        return mixed

    def before_step(self, step: Step) -> None:
        """Generate features of the batch's labels, and of labels that follow p(y)."""
        if not self.ramp:
            return
        params = self.params
        with torch.no_grad():
            if params.feature_weight or params.logit_weight:
                self.same = self.generate(step.labels)
            if params.classification_weight:
                drawn = draw_labels(self.shares, params.generated_batch, self.drawn)
                self.labels = drawn.to(step.local.device)
                self.free = self.generate(self.labels)

    def generate(self, labels: Tensor) -> Tensor:
        """G(z, y) with new noise."""
        params = self.params
        noise = draw_noise(params.noise, len(labels), params.noise_dim, self.noise)
        features: Tensor = self.teacher(noise.to(labels.device), labels)
        return features  # (batch, feature_dim)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """Compute l1, l2 and l3 of eq. 4; the first trains the classifier only."""
        params, local = self.params, step.local
        found: dict[str, Tensor] = {}
        if not self.ramp:
            return found
        if params.classification_weight:
            loss = local.task.loss(classify(local, self.free), self.labels)
            found["generated.classification"] = self.ramp * params.classification_weight * loss
        if params.feature_weight:
            apart = feature_distance(step.features, self.same, params.distance == "norm")
            found["generated.features"] = self.ramp * params.feature_weight * apart
        if params.logit_weight:
            # Differs from the paper: the teacher is detached, because it passes through the same
            # classifier and could otherwise be moved towards the student.
            taught, answers = classify(local, self.same).detach(), step.logits[:, : local.classes]
            apart = divergences(answers, taught, params.temperature, params.reverse).mean()
            found["generated.logits"] = self.ramp * params.logit_weight * apart
        return found

    def end(self, local: LocalRound) -> Sections:
        """Train the local generator, or compute the means; send the label counts.

        A client that could not train at all leaves its generator as it is.
        """
        if local.steps and self.params.source == "means":
            compute_means(local, self.received)
        elif local.steps:
            terms = train_generator(local, self.params)
            local.report |= {f"term.generator.{name}": value for name, value in terms.items()}
        if local.config.diagnostics and local.steps:
            local.report["fedmd-cg.generated_loss"] = generated_loss(local, self.params)
        return {COUNTS: [local.data.class_counts.astype(np.float64)]}


def classify(local: LocalRound, features: Tensor) -> Tensor:
    """The local classifier's logits of the real classes."""
    logits: Tensor = local.model.classifier(features)
    return logits[:, : local.classes]


MOMENTS = "fedmd-cg.moments"  # in the client's memory: the state of the generator's Adam
SAMPLES = 512  # images per batch of the means


def train_generator(local: LocalRound, params: FedMdCg) -> dict[str, float]:
    """Train G_i in place against the frozen local model; return the mean of every term."""
    generator, cached = local.model.get_submodule(GENERATOR), params.generator_batches == "cached"
    kind = Accumulating if cached else Adam
    optimizer = kind(
        generator.parameters(),
        lr=params.generator_lr,
        weight_decay=params.adam_weight_decay,
        fused=True,
    )
    restore_moments(optimizer, local.memory.get(MOMENTS) or [])
    batches = cached_batches(local) if cached else local.data.batches(local, "generator.")
    terms = partial(imitate, params, generator, local.generator("fedmd-cg.generator-noise"))
    with frozen_network(local):
        generator.train()
        trained = train_phase(local, Phase(batches, optimizer, terms))
        generator.eval()
    local.memory.put(MOMENTS, save_moments(optimizer))
    return trained.terms


def imitate(
    params: FedMdCg, generator: nn.Module, drawn: torch.Generator, step: Step
) -> dict[str, Tensor]:
    """Compute the terms of eq. 9 on one batch.

    A real and a generated feature have only the label in common, so that the distance alone would
    drive G_i to the mean of the class. Diversity keeps its features apart.
    """
    model, labels, classes = step.local.model, step.labels, step.local.classes
    with torch.no_grad():
        features = model.features(step.images)  # (batch, feature_dim)
        taught = model.classifier(features)[:, :classes]
    noise = draw_noise(params.noise, len(labels), params.noise_dim, drawn).to(labels.device)
    generated = generator(noise, labels)
    answers = model.classifier(generated)[:, :classes]
    by_norm = params.distance == "norm"
    terms = {"logits": divergences(answers, taught, reverse=params.reverse).mean()}
    if weight := params.generator_feature_weight:
        terms["features"] = weight * feature_distance(generated, features, by_norm)
    if weight := params.generator_classification_weight:
        terms["classification"] = weight * step.local.task.loss(answers, labels)
    if weight := params.diversity_weight:
        distances = norms if by_norm else mean_squares
        diversity = DIVERSITY[params.diversity]
        terms["diversity"] = weight * diversity(generated, noise, labels, classes, distances)
    return terms


@torch.no_grad()
def compute_means(local: LocalRound, received: Arrays) -> None:
    """Make the means of this client's features in each class its generator.

    A class that it lacks keeps the mean that came from the server.
    """
    means, data = local.model.get_submodule(GENERATOR), local.data
    assert isinstance(means, FeatureMeans)
    local.model.eval()
    sums = torch.zeros_like(means.means, dtype=torch.float64)  # (classes, feature_dim)
    for index in torch.split(torch.arange(len(data)), SAMPLES):
        images, labels = data.resident.take(index)
        images = data.prepare(
            images, "none", local.generator("fedmd-cg.means"), local.run.memory_format
        )
        sums.index_add_(0, labels, local.model.features(images).double())
    counts = torch.tensor(data.class_counts, device=sums.device)[:, None]  # (classes, 1)
    kept = torch.tensor(received[0], device=sums.device)
    means.means.copy_(torch.where(counts > 0, (sums / counts.clamp(min=1)).float(), kept))
