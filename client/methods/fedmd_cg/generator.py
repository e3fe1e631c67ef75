"""The second phase of a client's round: its generator learns to imitate its extractor (eq. 9)."""

from functools import partial

import torch
from torch import Tensor, nn

from fedmirage.client.methods._pairs import frozen_network
from fedmirage.client.methods.fedmd_cg.cache import Accumulating, cached_batches
from fedmirage.client.round import LocalRound, Step
from fedmirage.client.train import Phase, train_phase
from fedmirage.common.learning.diversity import DIVERSITY, mean_squares, norms
from fedmirage.common.learning.losses import divergences, feature_distance
from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.methods.fedmd_cg import GENERATOR, FedMdCg
from fedmirage.common.models.generators import FeatureMeans, draw_noise
from fedmirage.common.wire.payload import Arrays

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
