"""What methods share whose clients keep their extractor and train a generator of its features."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import WARNING

import numpy as np
import torch
from flwr.common import log

from fedmirage.client.round import LocalRound
from fedmirage.common.methods._labels import label_shares
from fedmirage.common.methods.fedcg import GENERATOR, FedCg
from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.common.models.generators import draw_labels, draw_noise

SAMPLES = 512  # features that are generated for --diagnostics


def say_how_it_starts(local: LocalRound, method: str, kept: str) -> None:
    """Report whether the run's seed gives this client what it would otherwise have kept, and why.

    In round 1 that is so for all, and nothing is said.
    """
    if local.number == 1:
        return
    fresh, lost = local.memory.age is None, local.memory.lost
    local.report[f"{method}.joined_late"] = float(fresh and not lost)
    local.report[f"{method}.memory_lost"] = float(lost)
    if fresh:
        why = "this node has lost its memory of the run" if lost else "it has not trained yet"
        who = f"round {local.number}: client {local.partition}"
        log(WARNING, "%s starts with %s of the run's seed: %s", who, kept, why)


@contextmanager
def frozen_network(local: LocalRound) -> Iterator[None]:
    """Put extractor and classifier into evaluation mode, and let no gradient reach them."""
    local.model.eval()
    weights = local.trainable()
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


@torch.no_grad()
def generated_loss(local: LocalRound, params: FedMdCg | FedCg) -> float:
    """The local classifier's loss on its generator's features (FedMD-CG's figure 5: "G+D loss").

    The labels are distributed as this client's own are.
    """
    drawn = local.generator("generated-loss")
    labels = draw_labels(label_shares(local.data.class_counts.astype(np.float64)), SAMPLES, drawn)
    noise = draw_noise(params.noise, SAMPLES, params.noise_dim, drawn)
    local.model.eval()
    generator, labels = local.model.get_submodule(GENERATOR), labels.to(local.device)
    logits = local.model.classifier(generator(noise.to(local.device), labels))[:, : local.classes]
    return float(local.task.loss(logits, labels))
