"""Rebuilds the images that clients trained on from the updates that they sent, and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

import torch
from torch import Tensor

from fedmirage.audit.attack import AuditFinding, AuditPicture, AuditTable
from fedmirage.audit.attacks import Inversion
from fedmirage.audit.inversion.matching import Guess, Matcher, rebuild
from fedmirage.audit.inversion.scores import assign, psnr, ssim
from fedmirage.audit.inversion.sights import Victim, draw_features, find_victims, infer_labels
from fedmirage.audit.overheard import SUM, Overheard
from fedmirage.common.image_grid import draw_grid
from fedmirage.common.seeds import torch_generator

ACROSS = 10  # images of a picture
PICTURE = "rebuilt.png"
HEAD = ("client", "round", "images", "PSNR", "SSIM", "PSNR of restarts", "distance", "labels")
NOTE = (
    "PSNR in dB and SSIM are means over a client's images, each paired with the rebuilt image that"
    " fits it; of the restarts, the one with the smallest distance counts, which the attacker sees."
    " The last column counts the labels that the attack inferred rightly."
)


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


def show(params: Inversion, seen: Overheard, found: Sequence[Rebuilt]) -> AuditFinding:
    """Tell what was rebuilt of whom."""
    if not found:
        return AuditFinding(
            ["No client moved anything that is sent, so there was nothing to rebuild."]
        )
    scores = [float(one) for rebuilt in found for one in rebuilt.psnr]
    similar = [float(one) for rebuilt in found for one in rebuilt.ssim]
    numbers = {
        "psnr": scores,
        "psnr_median": median(scores),
        "psnr_mean": mean(scores),
        "psnr_std": stdev(scores) if len(scores) > 1 else 0.0,
        "ssim_median": median(similar),
        "restarts_spread": median(measure_spread(found)),
    }
    says = [
        f"Rebuilt {count_images(len(scores))} with a median PSNR of {median(scores):.1f} dB (mean"
        f" {mean(scores):.1f}, from {min(scores):.1f} to {max(scores):.1f}) and a median SSIM of"
        f" {write_ssim(median(similar))}{tell_spread(params, found)}.",
        *tell_labels(found),
        *tell_assumptions(params, seen),
    ]
    table = AuditTable("Rebuilt images", HEAD, [row_of(one) for one in found], NOTE)
    return AuditFinding(says, [table], [draw(seen, found)], numbers)


def write_ssim(value: float) -> str:
    """Write an SSIM, which may be a little below 0, without a sign in front of 0."""
    return f"{round(value, 2) + 0.0:.2f}"


def row_of(one: Rebuilt) -> list[str | int | float | None]:
    """Write one attack as a row."""
    who = "all" if one.victim.partition == SUM else str(one.victim.partition)
    rounds = [sight.number for sight in one.victim.sights]
    when = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    spread = f"{min(one.of_restarts):.1f} to {max(one.of_restarts):.1f}"
    count = one.victim.images
    labels = None if one.right_labels is None else f"{one.right_labels} of {count}"
    scores = (f"{float(one.psnr.mean()):.1f}", write_ssim(float(one.ssim.mean())))
    return [who, when, count, *scores, spread, f"{one.distance:.1e}", labels]


def count_images(number: int, kind: str = "") -> str:
    """Write how many images there are."""
    return f"{number} {kind}image{'s' * (number > 1)}"


def tell_spread(params: Inversion, found: Sequence[Rebuilt]) -> str:
    """Say how far the restarts of one attack are apart; nothing if each began but once."""
    if params.restarts == 1:
        return ""
    return f"; restarts of one attack differ by {median(measure_spread(found)):.1f} dB"


def measure_spread(found: Sequence[Rebuilt]) -> list[float]:
    """Return the difference between the best and the worst restart of every attack, in dB."""
    return [max(one.of_restarts) - min(one.of_restarts) for one in found]


def tell_labels(found: Sequence[Rebuilt]) -> list[str]:
    """Say how many labels the updates gave away."""
    known = [one for one in found if one.right_labels is not None]
    if not known:
        return ["Nothing that is sent tells of the labels, so they were searched with the images."]
    right, all_of_them = (
        sum(one.right_labels or 0 for one in known),
        sum(one.victim.images for one in known),
    )
    return [f"Of the labels, which are inferred first, {right} of {all_of_them} are right."]


def tell_assumptions(params: Inversion, seen: Overheard) -> list[str]:
    """Say what the attacker is taken to know, and what it does not look at."""
    said, config, run = [], seen.config, seen.run
    hidden = [part for part in run.parts.trains if part not in run.parts.sends]
    if hidden:
        told = {
            "seed": "is taken to begin as the run's seed gives it, which the server knows",
            "guess": "is guessed: the attacker takes the weights of another seed",
        }[params.private]
        said.append(f"What a client does not send, the {' and the '.join(hidden)}, {told}.")
    if config.local_steps > 1:
        how = "by steps on the rebuilt images"
        if params.several_steps == "mean" or any(SUM in one.received for one in seen.rounds):
            how = "as a multiple of one gradient"
        said.append(f"An update of {config.local_steps} local steps is matched {how}.")
    if any(SUM in exchange.received for exchange in seen.rounds):
        said.append("The server sees only the sum of the updates, and attacks that.")
    return said


def draw(seen: Overheard, found: Sequence[Rebuilt]) -> AuditPicture:
    """Draw originals above rebuilt images."""
    originals = torch.cat([one.originals for one in found])[:ACROSS]
    images = torch.cat([one.images for one in found])[:ACROSS]
    scores = torch.cat([one.psnr for one in found])[:ACROSS]
    channels = originals.shape[1]
    rows = {"original": list(originals), "rebuilt": list(images)}
    sheet = draw_grid(
        rows, [0.0] * channels, [1.0] * channels, [f"{float(one):.1f} dB" for one in scores]
    )
    sheet.save(seen.picture(PICTURE))
    caption = (
        f"{count_images(len(originals), 'training ')}, and what the attack made of the updates"
    )
    return AuditPicture(PICTURE, caption)
