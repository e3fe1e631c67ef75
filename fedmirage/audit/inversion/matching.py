"""The two attacks: images are moved until training on them gives the update that was seen.

    dlg      min over x of  sum |g(x) - g*|^2 / sum |g*|^2              L-BFGS (Zhu et al., 2019)
    cosine   min over x of  1 - <g(x), g*> / (|g(x)| |g*|) + a TV(x)    Adam (Geiping et al., 2020)

g* is the gradient that a reply tells of, g(x) that of training on x; both are summed over local
steps, and compared for the weights that are sent. Several replies of a client add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from fedmirage.audit.attacks import Inversion
from fedmirage.audit.inversion.sights import Named, Sight, Victim
from fedmirage.audit.overheard import SUM
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.method import NETWORK
from fedmirage.common.models.base import Model

MEMORY = 50  # pairs that L-BFGS keeps
DECAYS = (3 / 8, 5 / 8, 7 / 8)  # of the iterations: after each, Adam's step falls to a tenth


@dataclass(frozen=True)
class Guess:
    """What the attacker moves: images and, where labels are not known, their logits."""

    images: Tensor  # (images, channels, height, width), normalised
    labels: Tensor  # (images,) classes, or (images, classes) logits

    @property
    def moved(self) -> list[Tensor]:
        """The tensors that are optimised."""
        return [one for one in (self.images, self.labels) if one.requires_grad]

    @property
    def targets(self) -> Tensor:
        """Labels as the cross-entropy takes them: classes, or probabilities."""
        return self.labels.softmax(1) if self.labels.ndim == 2 else self.labels


@dataclass(frozen=True)
class Matcher:
    """Compares what training on rebuilt images would send with what was sent."""

    params: Inversion
    model: Model
    victim: Victim
    features: Tensor | None  # (classes, feature_dim) that the client's generator makes, if any

    def objective(self, guess: Guess) -> Tensor:
        """Compute what the attack makes small."""
        total = self.distance(guess)
        if self.params.matching == "cosine":
            total = total + self.params.total_variation * total_variation(guess.images)
        if self.features is not None and guess.labels.ndim == 1:
            total = total + self.params.generator_weight * self.compare_features(guess)
        return total

    def distance(self, guess: Guess) -> Tensor:
        """Compute how far the updates are from those that were seen."""
        return torch.stack([self.compare(sight, guess) for sight in self.victim.sights]).sum()

    def compare(self, sight: Sight, guess: Guess) -> Tensor:
        """Compute how far the update of training on the images is from the one that was seen."""
        made = self.train_on(sight, guess)
        pairs = [(made[name].flatten(), seen.flatten()) for name, seen in sight.gradient.items()]
        ours, theirs = (torch.cat(side) for side in zip(*pairs, strict=True))
        if self.params.matching == "cosine":
            return 1 - F.cosine_similarity(ours, theirs, dim=0)
        return (ours - theirs).square().sum() / theirs.square().sum()

    def train_on(self, sight: Sight, guess: Guess) -> Named:
        """Return the sum of the gradients of the local steps, which can be differentiated again."""
        moving = [name for name, _ in self.model.named_parameters() if part_of(name) in NETWORK]
        weights = {
            name: one.clone().requires_grad_(name in moving) for name, one in sight.weights.items()
        }
        trained = list(sight.gradient) if sight.steps == 1 else moving
        if self.takes_mean(sight):
            times = effective_steps(sight.steps, sight.momentum)
            gradient = self.differentiate(sight, weights, trained, guess.images, guess.targets)
            return {name: times * one for name, one in gradient.items()}
        total = {name: torch.zeros_like(weights[name]) for name in trained}
        velocity = dict(total)
        for images, targets in self.batches(sight, guess):
            gradient = self.differentiate(sight, weights, trained, images, targets)
            for name in trained:
                velocity[name] = sight.momentum * velocity[name] + gradient[name]
                total[name] = total[name] + velocity[name]
                weights[name] = weights[name] - sight.lr * velocity[name]
        return total

    def takes_mean(self, sight: Sight) -> bool:
        """Whether the update counts as a multiple of the gradient at the weights it began with.

        Of a sum, nobody knows which images shared a step.
        """
        mean = self.params.several_steps == "mean" or self.victim.partition == SUM
        return mean and sight.steps > 1

    def batches(self, sight: Sight, guess: Guess) -> list[tuple[Tensor, Tensor]]:
        """Return what every local step looks at: all images, or its own."""
        images, targets = guess.images, guess.targets
        if self.victim.repeated:
            return [(images, targets)] * sight.steps
        each = len(images) // sight.steps
        return list(zip(torch.split(images, each), torch.split(targets, each), strict=True))

    def differentiate(
        self, sight: Sight, weights: Named, trained: list[str], images: Tensor, targets: Tensor
    ) -> Named:
        """Compute the gradients of one local step, with weight decay."""
        loss = F.cross_entropy(functional_call(self.model, weights, images), targets)
        moved = [weights[name] for name in trained]
        gradients = torch.autograd.grad(loss, moved, create_graph=True)
        decayed = (
            one + sight.weight_decay * weight for one, weight in zip(gradients, moved, strict=True)
        )
        return dict(zip(trained, decayed, strict=True))

    def compare_features(self, guess: Guess) -> Tensor:
        """Compute how far the images' features are from those of the client's generator."""
        assert self.features is not None
        ours = functional_call(self.model.features, self.parts("features."), guess.images)
        distance: Tensor = (ours - self.features[guess.labels]).square().mean()
        return distance

    def parts(self, prefix: str) -> Named:
        """Return the weights of a part of the network, as the attacker supposes them."""
        weights = self.victim.first.weights
        return {
            name.removeprefix(prefix): one
            for name, one in weights.items()
            if name.startswith(prefix)
        }


def part_of(name: str) -> str:
    """Return the part of the network that a weight belongs to."""
    return name.partition(".")[0]


def rebuild(matcher: Matcher, guess: Guess, box: tuple[Tensor, Tensor]) -> float:
    """Move the images of a guess until they match; return how far they still are.

    `box` has black and white as they are after normalisation.
    """
    search = search_by_angle if matcher.params.matching == "cosine" else search_by_distance
    search(matcher, guess, box)
    found = float(matcher.distance(guess).detach())
    return found if found == found else float("inf")  # a search that ended in NaN


def search_by_distance(matcher: Matcher, guess: Guess, box: tuple[Tensor, Tensor]) -> None:
    """DLG: L-BFGS on the squared distance, without bounds."""
    optimizer = torch.optim.LBFGS(
        guess.moved,
        max_iter=matcher.params.iterations,
        max_eval=matcher.params.iterations,
        history_size=MEMORY,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def evaluate() -> Tensor:
        distance = matcher.objective(guess)
        gradients = torch.autograd.grad(distance, guess.moved)
        for one, gradient in zip(guess.moved, gradients, strict=True):
            one.grad = gradient
        return distance

    optimizer.step(evaluate)  # type: ignore[no-untyped-call]


def search_by_angle(matcher: Matcher, guess: Guess, box: tuple[Tensor, Tensor]) -> None:
    """Geiping et al.: Adam on the signs of the gradients, inside the bounds of pixels."""
    params = matcher.params
    optimizer = torch.optim.Adam(guess.moved, lr=params.step)
    milestones = [int(params.iterations * share) for share in DECAYS]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.1)
    for _ in range(params.iterations):
        gradients = torch.autograd.grad(matcher.objective(guess), guess.moved)
        for one, gradient in zip(guess.moved, gradients, strict=True):
            one.grad = gradient.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            guess.images.clamp_(*box)


def total_variation(images: Tensor) -> Tensor:
    """Compute the mean difference between neighbouring pixels."""
    across = (images[..., :, 1:] - images[..., :, :-1]).abs().mean()
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
    return across + down
