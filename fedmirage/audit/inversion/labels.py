"""What an update tells of the labels, before any image is rebuilt."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedmirage.audit.inversion.sights import Sight, Victim
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.methods._labels import COUNTS
from fedmirage.common.models.base import Model

DUMMIES = 64  # images of noise, for what the network answers without having learnt much


def infer_labels(
    model: Model, victim: Victim, shape: tuple[int, ...], drawn: torch.Generator
) -> Tensor | None:
    """Return the labels of the images in ascending order; None if nothing tells of them.

    A client whose label counts are all of its images has told. Otherwise the gradient of the last
    layer's bias tells: g_c = mean_i p_ic - n_c / n for n images, of which n_c are of class c. For
    one image, it is negative for its class and for no other. For several, the answers p to noise
    stand for those to the images, and classes are taken one after the other, the largest rest of
    n (p_c - g_c) first.
    """
    sight = victim.first
    sections = sight.reply.sections
    if victim.repeated and COUNTS in sections and sections[COUNTS][0].sum() == victim.images:
        counts = torch.from_numpy(sections[COUNTS][0]).long()
        return torch.arange(len(counts)).repeat_interleave(counts)
    bias = name_last_bias(model)
    if bias not in sight.gradient:
        return None
    steps = effective_steps(sight.steps, sight.momentum)
    gradient = sight.gradient[bias] / steps - sight.weight_decay * sight.weights[bias]
    left = victim.images * (answer_noise(model, sight, shape, drawn) - gradient)
    found = []
    for _ in range(victim.images):
        found.append(int(left.argmax()))
        left[found[-1]] -= 1
    return torch.tensor(sorted(found))


@torch.no_grad()
def answer_noise(
    model: Model, sight: Sight, shape: tuple[int, ...], drawn: torch.Generator
) -> Tensor:
    """Return the mean probabilities that the network a client began with gives for noise."""
    noise = torch.randn(DUMMIES, *shape, generator=drawn)
    answers: Tensor = functional_call(model, sight.weights, noise).softmax(1).mean(0)
    return answers


def name_last_bias(model: Model) -> str:
    """Return the name of the bias that is added to the logits."""
    layers = [name for name, one in model.named_modules() if isinstance(one, nn.Linear)]
    last = [name for name in layers if name.partition(".")[0] == "classifier"][-1]
    return f"{last}.bias"
