"""Rebuilds the images that clients trained on from the updates that they sent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedmirage.audit.attack import AuditFinding
from fedmirage.audit.attacks import Inversion
from fedmirage.audit.inversion.labels import infer_labels
from fedmirage.audit.inversion.matching import Guess, Matcher, rebuild
from fedmirage.audit.inversion.scores import assign, psnr, ssim
from fedmirage.audit.inversion.shown import show
from fedmirage.audit.inversion.sights import Victim, draw_features, find_victims
from fedmirage.audit.overheard import Overheard
from fedmirage.audit.tap import SUM
from fedmirage.common.seeds import torch_generator


@dataclass(frozen=True)
class Rebuilt:
    """What became of one attack: the restart that matched best, and the scores of all."""

    victim: Victim
    originals: Tensor  # (pairs, channels, height, width), pixels from 0 to 1
    images: Tensor  # (pairs, channels, height, width), rebuilt
    psnr: Tensor  # (pairs,) in dB
    ssim: Tensor  # (pairs,)
    distance: float
    of_restarts: list[float]  # the mean PSNR of each of them
    right_labels: int | None  # how many labels were inferred rightly; None if none was tried


def carry_out(params: Inversion, seen: Overheard) -> AuditFinding:
    """Attack client after client, and tell how well their images were rebuilt."""
    victims = list(find_victims(params, seen))
    found = []
    for number, victim in enumerate(victims, 1):
        seen.tell(f"attack {number} of {len(victims)}")
        found.append(attack(params, seen, victim, number))
    return show(params, seen, found)


def attack(params: Inversion, seen: Overheard, victim: Victim, number: int) -> Rebuilt:
    """Attack one client, several times; score the restart that matches best."""
    drawn = torch_generator(seen.config.seed, "audit.inversion", number)
    model = seen.model().train()
    labels = infer_labels(model, victim, seen.run.shape, drawn)
    # Every other restart uses what the client's generator tells, which may mislead. Every reply
    # brings a generator that has learned for longer, so the last one counts.
    made = draw_features(seen, victim.sights[-1].reply, drawn)
    hints = [None, None if made is None else made.mean(1)]
    matchers = [Matcher(params, model, victim, features) for features in hints]
    originals, truth = find_originals(seen, victim)
    tries = [
        try_once(seen, matchers[number % 2], labels, drawn, originals)
        for number in range(params.restarts)
    ]
    distance, images, _ = min(tries, key=lambda one: one[0])
    ours, theirs = assign(images, originals)
    images, chosen = images[ours], originals[theirs]
    return Rebuilt(
        victim,
        chosen,
        images,
        psnr(images, chosen),
        ssim(images, chosen),
        distance,
        [score for _, _, score in tries],
        None if labels is None else count_shared(labels, truth),
    )


def try_once(
    seen: Overheard,
    matcher: Matcher,
    labels: Tensor | None,
    drawn: torch.Generator,
    originals: Tensor,
) -> tuple[float, Tensor, float]:
    """Attack once; return the distance that is left, the images as pixels, and their mean PSNR."""
    count, data = matcher.victim.images, seen.run.dataset
    images = torch.randn(count, *seen.run.shape, generator=drawn).requires_grad_()
    if labels is None:
        labels = torch.randn(count, seen.run.classes, generator=drawn).requires_grad_()
    guess = Guess(images, labels)
    mean, std = (torch.tensor(value).view(-1, 1, 1) for value in (data.mean, data.std))
    distance = rebuild(matcher, guess, (-mean / std, (1 - mean) / std))
    pixels = seen.truth.pixels(images.detach().nan_to_num())
    ours, theirs = assign(pixels, originals)
    return distance, pixels, float(psnr(pixels[ours], originals[theirs]).mean())


def find_originals(seen: Overheard, victim: Victim) -> tuple[Tensor, Tensor]:
    """Return the images, as pixels, that a victim trained on in the round, and their labels."""
    number = victim.first.number
    partitions = [victim.partition]
    if victim.partition == SUM:
        partitions = sorted(seen.rounds[number - 1].sent)
    batches = [batch for one in partitions for batch in seen.truth.batches(one, number)]
    if victim.repeated:
        batches = batches[:1]
    images, labels = (torch.cat(side) for side in zip(*batches, strict=True))
    return seen.truth.pixels(images), labels


def count_shared(labels: Tensor, others: Tensor) -> int:
    """Count the labels that two lists have in common, whatever their order."""
    most = int(max(labels.max(), others.max())) + 1
    counts = (one.bincount(minlength=most) for one in (labels, others))
    return int(torch.minimum(*counts).sum())
