"""Copies: are the images that a method makes closer to its training images than they ought to be?

Half of every client's samples are held out; clients that never took part do not count. Both halves
are random draws from the same data, so an image that shows what its class looks like is as close to
the one as to the other. A copy is not. For each image, the nearest trained-on and the nearest
held-out image are found, by the Euclidean distance of pixels and by that of the global model's
features. Two questions follow:

    all images   Is the median of (distance to trained-on) / (distance to held-out) smaller than
                 with halves drawn at random? A permutation test tells: it deals the real images
                 into halves again and again, and so needs no assumption about either distance.
    each image   An image is a copy if it is less than half as far from a trained-on image as from
                 any held-out one. Data sets have duplicates, so some real images are that close to
                 others by chance. How many is measured on held-out images, each against both halves
                 without itself; an exact one-sided test says how probable so many copies are then.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from fedmirage.audit.attack import AuditFinding, AuditPicture, AuditTable
from fedmirage.audit.attacks_on_outcomes import Copies
from fedmirage.audit.binomial import reach
from fedmirage.audit.halves import read_halves
from fedmirage.audit.held_images import HeldImages, find_images
from fedmirage.audit.overheard import Overheard
from fedmirage.common.data.batches import normalise
from fedmirage.common.errors import FedmirageError
from fedmirage.common.image_grid import draw_grid
from fedmirage.common.models.base import Model
from fedmirage.common.seeds import torch_generator
from fedmirage.common.wire.manifest import from_arrays

CLOSE = 0.5  # an image with a smaller ratio is a copy
RARE = 0.05  # what is less probable is no chance
NEAREST = 32  # neighbours that are kept: all in one half only once in 2^31 images
DEALS = 1000  # random halves of the permutation test
REAL = 1000  # at most so many held-out images are measured
BATCH = 256
SHEET = "closest.png"


@dataclass(frozen=True)
class Neighbours:
    """The nearest real images of some images, the nearest first."""

    distances: Tensor  # (images, NEAREST)
    positions: Tensor  # among all real images
    inside: Tensor  # whether each real image was trained on

    @property
    def ratios(self) -> Tensor:
        """Divide the distances to the nearest trained-on and to the nearest held-out image."""
        return self.divide(self.inside)

    @property
    def copies(self) -> int:
        """How many images are copies."""
        return int((self.ratios < CLOSE).sum())

    def divide(self, inside: Tensor) -> Tensor:
        """Divide both distances with the given halves; (images,)."""
        least = torch.finfo(self.distances.dtype).tiny  # exact copies are at no distance
        near, far = (
            self.distances.gather(1, self.find(half)).squeeze(1).clamp(min=least)
            for half in (inside, ~inside)
        )
        return near / far

    def find(self, half: Tensor) -> Tensor:
        """Find the column of the nearest in a half; (images, 1)."""
        return half[self.positions].to(torch.int8).argmax(1, keepdim=True)

    def nearest(self, half: Tensor) -> Tensor:
        """Return the position of the nearest in a half; (images,)."""
        return self.positions.gather(1, self.find(half)).squeeze(1)

    @cached_property
    def dealt(self) -> Tensor:
        """The medians of the ratios with random halves, ascending; (DEALS,)."""
        random = torch_generator(0, "audit.copies")
        medians = [
            self.divide(self.inside[torch.randperm(len(self.inside), generator=random)]).median()
            for _ in range(DEALS)
        ]
        return torch.stack(medians).sort().values

    @property
    def rank(self) -> float:
        """How probable so small a median is with random halves."""
        below = int((self.dealt <= self.ratios.median()).sum())
        return (below + 1) / (DEALS + 1)


@dataclass(frozen=True)
class Compared:
    """What one kind of distance says about some images."""

    what: HeldImages
    distance: str
    made: Neighbours
    real: Neighbours  # of held-out images

    @property
    def chance(self) -> float:
        """How probable so many copies are, if images are as close as held-out ones."""
        expected = (self.real.copies + 1) / (len(self.real.ratios) + 2)
        return reach(self.made.copies, len(self.made.ratios), expected)


@dataclass(frozen=True)
class Yardstick:
    """One kind of distance, and all real images as points in its space."""

    distance: str
    place: Callable[[Tensor], Tensor]  # of images (images, channels, height, width)
    points: Tensor  # (samples, numbers)
    inside: Tensor  # (samples,) whether each was trained on

    @cached_property
    def real(self) -> Neighbours:
        """Find the neighbours of held-out images, which are none of their own."""
        held_out = torch.nonzero(~self.inside).squeeze(1)
        chosen = held_out[torch.linspace(0, len(held_out) - 1, min(REAL, len(held_out))).long()]
        return self.measure(self.points[chosen], chosen)

    def compare(self, images: HeldImages) -> Compared:
        """Compare images that a method made with the real ones."""
        return Compared(images, self.distance, self.measure(self.place(images.images)), self.real)

    def measure(self, points: Tensor, themselves: Tensor | None = None) -> Neighbours:
        """Find the nearest neighbours of points; `themselves` are positions that do not count."""
        found = []
        for start in range(0, len(points), BATCH):
            part = torch.cdist(points[start : start + BATCH], self.points)  # (points, samples)
            if themselves is not None:
                part.scatter_(1, themselves[start : start + BATCH, None], math.inf)
            found.append(part.topk(min(NEAREST, part.shape[1]), largest=False))
        distances, positions = (torch.cat(parts) for parts in zip(*found, strict=True))
        return Neighbours(distances, positions, self.inside)


def carry_out(params: Copies, seen: Overheard) -> AuditFinding:
    """Compare the images that the run's methods made with both halves of the data."""
    if not (found := find_images(seen)):
        raise FedmirageError(
            f"methods={seen.config.methods!r} made no images in {seen.config.rounds} rounds, so"
            " nothing can be compared; results.jsonl says why"
        )
    data = seen.run.dataset
    took_part = {client for exchange in seen.rounds for client in exchange.sent}
    halves = read_halves(seen.config, data).of(took_part)
    images = torch.from_numpy(np.asarray(data.train.images[halves.pool]))
    real, inside = normalise(images, data.mean, data.std), torch.from_numpy(halves.inside)
    compared = []
    for distance, place in (("pixels", flatten), ("features", partial(extract, load_global(seen)))):
        seen.tell(f"comparing {distance}")
        yardstick = Yardstick(distance, place, place(real), inside)
        compared += [yardstick.compare(one) for one in found]
    draw_pairs(params.pairs, compared, real, seen)
    return report(compared)


def load_global(seen: Overheard) -> Model:
    """Load the last global model, whose features are compared."""
    run, model = seen.run, seen.model()
    last = seen.after(seen.rounds[-1].number)
    from_arrays(model, run.shared.place(last, run.initial, run.manifest))
    return model.eval()


def flatten(images: Tensor) -> Tensor:
    """Let pixels be the point of an image."""
    return images.flatten(1)


@torch.no_grad()
def extract(model: Model, images: Tensor) -> Tensor:
    """Let the features of a model be the point of an image."""
    return torch.cat([model.features(part) for part in torch.split(images, BATCH)])


def report(compared: Sequence[Compared]) -> AuditFinding:
    """Say of every set of images whether it holds copies."""
    names = list(dict.fromkeys(one.what.what for one in compared))
    says = [describe([one for one in compared if one.what.what == name]) for name in names]
    head = (
        "images",
        "by",
        "ratio",
        "with random halves",
        "p",
        "copies",
        "by chance",
        "p of copies",
    )
    rows = [make_row(one) for one in compared]
    note = (
        "The ratio is the median of (distance to the nearest trained-on image) / (distance to the"
        f" nearest held-out image), beside the range of 95 % of {DEALS} random halves; p is how"
        f" often theirs is as small. Copies have a ratio below {CLOSE:g}; beside them, the held-out"
        " images that have one by chance. p of copies is how probable so many are then."
    )
    caption = (
        "The images with the smallest ratios by pixels, above the nearest image that was trained on"
        " and the nearest that was held out."
    )
    numbers = {f"{one.what.what}, {one.distance}": collect_numbers(one) for one in compared}
    return AuditFinding(
        says, [AuditTable("Copies", head, rows, note)], [AuditPicture(SHEET, caption)], numbers
    )


def describe(both: Sequence[Compared]) -> str:
    """Say whether images hold copies, by pixels or by features."""
    what, count = both[0].what, len(both[0].made.ratios)
    found = [
        f"{one.made.copies} of {count} are copies by {one.distance}, more than chance explains"
        for one in both
        if one.made.copies and one.chance < RARE
    ]
    closer = [one.distance for one in both if one.made.rank < RARE]
    verdict = " and ".join(found) or f"none of {count} is a copy that chance does not explain"
    whole = (
        f"by {' and '.join(closer)} they are closer to the trained-on half than random halves allow"
        if closer
        else "on the whole they are no closer to the trained-on half than to the other"
    )
    return f"{what.what} ({what.where}): {verdict}; {whole}."


def make_row(one: Compared) -> tuple[str | float, ...]:
    """Make the row of a table."""
    low, high = range_of(one.made)
    count, real = len(one.made.ratios), len(one.real.ratios)
    return (
        one.what.what,
        one.distance,
        f"{float(one.made.ratios.median()):.3f}",
        f"{low:.3f} to {high:.3f}",
        one.made.rank,
        f"{one.made.copies} of {count}",
        f"{one.real.copies} of {real}",
        one.chance,
    )


def range_of(neighbours: Neighbours) -> tuple[float, float]:
    """Return the range of 95 % of the medians with random halves."""
    ends = neighbours.dealt.quantile(torch.tensor([0.025, 0.975])).tolist()
    return ends[0], ends[1]


def collect_numbers(one: Compared) -> dict[str, object]:
    """Collect the numbers of a comparison."""
    return {
        "where": one.what.where,
        "images": len(one.made.ratios),
        "ratio": float(one.made.ratios.median()),
        "smallest": float(one.made.ratios.min()),
        "random_halves": list(range_of(one.made)),
        "p": one.made.rank,
        "copies": one.made.copies,
        "real": len(one.real.ratios),
        "real_copies": one.real.copies,
        "p_of_copies": one.chance,
    }


def draw_pairs(count: int, compared: Sequence[Compared], real: Tensor, seen: Overheard) -> None:
    """Draw the closest pairs of every set of images, by pixels."""
    rows: dict[str, list[Tensor | None]] = {}
    for one in compared:
        if one.distance == "pixels":
            made, name = one.made, one.what.what
            chosen = made.ratios.argsort()[:count]
            rows[name] = list(one.what.images[chosen])
            for half, places in (("trained on", made.inside), ("held out", ~made.inside)):
                rows[f"{name}: {half}"] = list(real[made.nearest(places)[chosen]])
    data = seen.run.dataset
    draw_grid(rows, data.mean, data.std).save(seen.picture(SHEET))
