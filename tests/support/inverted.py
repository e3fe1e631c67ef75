"""Small runs that are overheard, and attacks on them."""

from pathlib import Path
from typing import Any

import torch

from fedmirage.audit.attacks import Inversion
from fedmirage.audit.inversion.matching import Guess, Matcher
from fedmirage.audit.inversion.sights import Victim
from fedmirage.audit.overheard import Overheard, overhear
from fedmirage.common.settings.config import configure

TINY: dict[str, Any] = {
    "dataset": "digits(size=12, limit=300)",
    "partition": "iid",
    "model": "dlg-cnn",
    "rounds": 1,
    "local_steps": 1,
    "batch_size": 1,
}


def listen(folder: Path, **settings: Any) -> Overheard:
    """Do a tiny run, and return what its server has seen."""
    return overhear(configure(TINY, {**settings, "out": str(folder)}))


def guess_truth(seen: Overheard, victim: Victim) -> Guess:
    """Return the images that a victim really trained on, as an attacker would guess them."""
    batches = seen.truth.batches(victim.partition, victim.first.number)
    batches = batches[:1] if victim.repeated else batches
    images, labels = (torch.cat(side) for side in zip(*batches, strict=True))
    return Guess(images, labels)


def distance_of_truth(seen: Overheard, victim: Victim, **params: Any) -> float:
    """Return how far the update of training on the true images is from what was sent."""
    matcher = Matcher(Inversion(**params), seen.model().train(), victim, None)
    return float(matcher.distance(guess_truth(seen, victim)).detach())
