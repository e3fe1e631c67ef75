"""Federated gradient matching: the distance by brute force, a step by hand, failures."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedmirage.common.learning.task import TASKS
from fedmirage.common.methods.fedlgd import FedLgd
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.server.methods.fedlgd.matching import GradientMatching, match

CLASSES = 3


def params(**more: Any) -> FedLgd:
    return FedLgd(**{"global_steps": 1, "precision": "single", **more})


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make_matching(
    model: Model,
    target: dict[str, Tensor] | None = None,
    distance: str = "rows",
    labels: Tensor | None = None,
    classes: int = CLASSES,
) -> GradientMatching:
    model = model.eval()
    if target is None:
        target = {
            name: noise(*weight.shape, seed=number)
            for number, (name, weight) in enumerate(model.named_parameters())
        }
    given = torch.arange(classes).repeat_interleave(2) if labels is None else labels
    return GradientMatching(model, target, given, TASKS["single-label"], classes, distance)


def small(**more: Any) -> Model:
    return build("convnet(width=4, depth=2)", (1, 9, 7), CLASSES, seed=1, **more)


def gradients(matching: GradientMatching, images: Tensor) -> dict[str, Tensor]:
    weights = dict(matching.model.named_parameters())
    loss = nn.functional.cross_entropy(matching.model(images), matching.labels)
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))


def test_the_distance_is_a_sum_over_rows_by_brute_force() -> None:
    """Every output node of every convolution and of the head is one row; biases have none."""
    matching, images = make_matching(small()), noise(6, 1, 9, 7)
    found, expected, rows = gradients(matching, images), 0.0, 0
    for name, g in matching.target.items():
        if g.ndim < 2:
            continue
        for node in range(len(g)):
            a, b = g[node].flatten().tolist(), found[name][node].flatten().tolist()
            norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
            expected += 1 - sum(x * y for x, y in zip(a, b, strict=True)) / (norms + 1e-6)
            rows += 1
    distance, _ = matching(images.requires_grad_())
    assert rows == 4 + 4 + 3
    assert float(distance) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("distance", ["squared", "cosine"])
def test_the_other_distances_see_one_vector(distance: str) -> None:
    matching, images = make_matching(small(), distance=distance), noise(6, 1, 9, 7)
    h = torch.cat([one.flatten() for one in gradients(matching, images).values()]).double()
    g = torch.cat([one.flatten() for one in matching.target.values()]).double()
    expected = (
        (g - h).square().sum() if distance == "squared" else 1 - g @ h / (g.norm() * h.norm())
    )
    assert float(matching(images.requires_grad_())[0]) == pytest.approx(float(expected), rel=1e-3)


@pytest.mark.parametrize("distance", ["rows", "squared", "cosine"])
def test_the_derivative_by_the_pixels_is_that_of_finite_differences(distance: str) -> None:
    """It is a second derivative: of the gradient by the weights."""
    model = small().double()
    target = {name: noise(*weight.shape).double() for name, weight in model.named_parameters()}
    matching, images = make_matching(model, target, distance), noise(6, 1, 9, 7).double()
    _, gradient = matching(images.clone().requires_grad_())
    direction = noise(6, 1, 9, 7, seed=5).double()
    ahead, behind = (
        matching((images + sign * 1e-6 * direction).requires_grad_())[0] for sign in (1, -1)
    )
    slope = float((ahead - behind) / 2e-6)
    assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-3)


def two_pixels() -> Model:
    """Two pixels to two classes, all weights 0."""
    model = Model(nn.Sequential(nn.Flatten()), nn.Linear(2, 2, bias=False), 2)
    nn.init.zeros_(model.classifier.weight)
    return model


def test_a_step_by_hand() -> None:
    """All logits are 0, so that both probabilities are 1/2, whatever the pixels are.

    With x_0 = (0, 0) of class 0 and x_1 = (3, 4) of class 1, d = x_1 - x_0, the gradient of the
    cross-entropy is d/4 in row 0 and -d/4 in row 1. With g = (1, 0) and (-1, 0) both cosines are
    d_1/|d| = 0.6, and the distance is 2 (1 - 0.6) = 0.8. Its derivative by d is -2 (e_1/|d| - d_1
    d/|d|^3) = -2 (0.2 - 0.072, -0.096) = (-0.256, 0.192), for x_1 as it is and for x_0 negated. One
    step with learning rate 1 leads to d = (3.512, 3.616), and 2 (1 - 3.512/5.0407...) is left.
    """
    target = {"classifier.weight": torch.tensor([[1.0, 0.0], [-1.0, 0.0]])}
    matching = make_matching(two_pixels(), target, labels=torch.tensor([0, 1]), classes=2)
    images = torch.tensor([[0.0, 0.0], [3.0, 4.0]]).view(2, 1, 1, 2)
    matched = match(params(), matching, images)
    expected = torch.tensor([[-0.256, 0.192], [3.256, 3.808]])
    torch.testing.assert_close(matched.images.view(2, 2), expected, rtol=0, atol=1e-5)
    left = 2 * (1 - 3.512 / math.hypot(3.512, 3.616))
    assert matched.losses == pytest.approx([0.8, left], abs=1e-5)


def test_momentum_adds_half_of_the_last_step() -> None:
    target = {"classifier.weight": torch.tensor([[1.0, 0.0], [-1.0, 0.0]])}
    matching = make_matching(two_pixels(), target, labels=torch.tensor([0, 1]), classes=2)
    images = torch.tensor([[0.0, 0.0], [3.0, 4.0]]).view(2, 1, 1, 2)
    once = match(params(), matching, images).images
    _, gradient = matching(once.clone().requires_grad_())
    twice = match(params(global_steps=2), matching, images).images
    torch.testing.assert_close(twice, once - gradient + 0.5 * (once - images))


@pytest.mark.parametrize("distance", ["rows", "squared", "cosine"])
def test_the_distance_falls(distance: str) -> None:
    """The target is the gradient of other images, and so can be reached."""
    model = small()
    reachable = gradients(make_matching(model), noise(6, 1, 9, 7, seed=9))
    matching = make_matching(model, reachable, distance)
    losses = match(params(global_steps=40), matching, noise(6, 1, 9, 7)).losses
    assert len(losses) == 41
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("norm", ["instance", "batch"])
def test_the_model_stays_as_it_is(norm: str) -> None:
    """Batch norm uses its running statistics, which learning pixels does not move."""
    model = build(f"convnet(width=4, depth=2, norm={norm!r})", (1, 9, 7), CLASSES, seed=1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    matched = match(params(global_steps=3), make_matching(model), noise(6, 1, 9, 7))
    assert bool(matched.images.isfinite().all())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_outputs_of_another_method_are_cut_off() -> None:
    """With a wider head, the cross-entropy is over the real classes; the other rows stay zero."""
    model = build("mlp(hidden=4, layers=1)", (1, 9, 7), CLASSES, 2, seed=1)
    images = noise(6, 1, 9, 7).requires_grad_()
    distance, gradient = make_matching(model)(images)
    assert bool(distance.isfinite())
    assert bool(gradient.any())


class Failing:
    """A matching whose numbers are not finite at some steps."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.calls, self.seen = bad, 0, []  # type: ignore[var-annotated]

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(images.detach().clone())
        self.calls += 1
        gradient = torch.ones_like(images)
        return torch.tensor(1.0), gradient * (math.nan if self.calls - 1 in self.bad else 1.0)


def test_a_step_that_is_not_finite_is_undone_and_the_rate_is_halved() -> None:
    """Pixels go 0, -1, then -2.5 with momentum; that is not usable, and -1.5 is tried instead."""
    failing = Failing(2)
    matched = match(params(global_steps=4), failing, torch.zeros(1, 1, 1, 1))  # type: ignore[arg-type]
    assert [float(images) for images in failing.seen] == [0, -1, -2.5, -1, -1.5]
    assert (matched.failures, len(matched.losses), float(matched.images)) == (1, 4, -1.5)


def test_without_a_finite_step_the_images_stay() -> None:
    images = torch.zeros(1, 1, 1, 1)
    matched = match(params(global_steps=2), Failing(0, 1, 2), images)  # type: ignore[arg-type]
    assert (matched.failures, matched.losses) == (3, [])
    assert torch.equal(matched.images, images)


def test_what_half_precision_cannot_hold_is_not_usable() -> None:
    matched = match(
        params(global_steps=1, pixel_lr=1e5),
        Failing(),
        torch.zeros(1, 1, 1, 1),  # type: ignore[arg-type]
    )
    assert (matched.failures, float(matched.images)) == (1, 0)
