"""What the rebuilt images look like, in numbers and in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median, stdev
from typing import TYPE_CHECKING

import torch

from fedmirage.audit.attack import AuditFinding, AuditPicture, AuditTable
from fedmirage.audit.attacks import Inversion
from fedmirage.audit.overheard import Overheard
from fedmirage.audit.tap import SUM
from fedmirage.common.image_grid import draw_grid

if TYPE_CHECKING:
    from fedmirage.audit.inversion import Rebuilt

ACROSS = 10  # images of a picture
PICTURE = "rebuilt.png"
HEAD = ("client", "round", "images", "PSNR", "SSIM", "PSNR of restarts", "distance", "labels")
NOTE = (
    "PSNR in dB and SSIM are means over a client's images, each paired with the rebuilt image that"
    " fits it; of the restarts, the one with the smallest distance counts, which the attacker sees."
    " The last column counts the labels that the attack inferred rightly."
)


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
