"""The diversity losses of feature generators against double loops over all pairs."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from fedmirage.common.learning.diversity import DIVERSITY, absolute_diversity, mean_squares, norms

BATCH, CLASSES = 5, 4


def sample() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(BATCH, 6, generator=generator, dtype=torch.float64)
    noise = torch.randn(BATCH, 3, generator=generator, dtype=torch.float64)
    return features * 0.3, noise * 0.3, torch.tensor([0, 1, 1, 3, 0])


def by_pairs(kind: str, distances: Any, features: Any, noise: Any, labels: Any) -> float:
    """exp(-1/B^2 sum_j sum_k w_jk a_jk), as the equations are written."""
    far = {
        mean_squares: lambda a, b: float(np.mean((a - b) ** 2)),
        norms: lambda a, b: math.sqrt(float(np.sum((a - b) ** 2))),
    }[distances]
    hot, total = np.eye(CLASSES)[labels.numpy()], 0.0
    f, z = features.numpy(), noise.numpy()
    for j in range(BATCH):
        for k in range(BATCH):
            weight = far(z[j], z[k])
            if kind == "div1":
                weight = far(np.append(z[j], hot[j]), np.append(z[k], hot[k]))
            if kind == "div2":
                apart = np.abs(hot[j] - hot[k])
                weight *= math.exp(apart.mean() if distances is mean_squares else apart.sum())
            total += far(f[j], f[k]) * weight
    return math.exp(-total / BATCH**2)


@pytest.mark.parametrize("distances", [mean_squares, norms])
@pytest.mark.parametrize("kind", DIVERSITY)
def test_each_kind_is_the_double_loop(kind: str, distances: Any) -> None:
    features, noise, labels = sample()
    found = DIVERSITY[kind](features, noise, labels, CLASSES, distances)
    assert float(found) == pytest.approx(by_pairs(kind, distances, features, noise, labels))


def test_labels_that_differ_weigh_e_to_the_two_over_classes_more() -> None:
    """Two rows a distance of 1 apart in noise and in features: the mean over the four pairs is half
    of w. With ten classes, w grows from 1 to e^0.2 where the labels differ; with norms, to e^2."""
    features = noise = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    same, other = torch.tensor([3, 3]), torch.tensor([3, 7])
    for distances, factor in ((mean_squares, math.exp(0.2)), (norms, math.exp(2))):
        loss = DIVERSITY["div2"]
        assert float(loss(features, noise, same, 10, distances)) == pytest.approx(math.exp(-0.5))
        assert float(loss(features, noise, other, 10, distances)) == pytest.approx(
            math.exp(-0.5 * factor)
        )


@pytest.mark.parametrize("distances", [mean_squares, norms])
def test_the_gradient_drives_equal_noises_nowhere_and_is_finite(distances: Any) -> None:
    """The diagonal has distance 0, where a square root has no derivative."""
    features, noise, labels = sample()
    features = features.clone().requires_grad_()
    DIVERSITY["div2"](features, noise, labels, CLASSES, distances).backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()
    assert features.grad.abs().sum() > 0


def test_fedgens_diversity_takes_absolute_differences_of_the_features() -> None:
    features, noise, _ = sample()
    f, z = features.numpy(), noise.numpy()
    pairs = [(j, k) for j in range(BATCH) for k in range(BATCH)]
    total = sum(np.abs(f[j] - f[k]).mean() * ((z[j] - z[k]) ** 2).mean() for j, k in pairs)
    found = absolute_diversity(features, noise)
    assert float(found) == pytest.approx(math.exp(-total / BATCH**2))
