"""FedCOG's losses against brute force, and their limits."""

import math

import pytest
import torch
from torch import Tensor

from fedmirage.common.learning.losses import (
    bernoulli,
    distillation,
    jensen_shannon,
    jensen_shannon_clamped,
    statistics_distance,
)


def random(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def softmax(logits: Tensor, temperature: float) -> list[list[float]]:
    powers = [[math.exp(value / temperature) for value in row] for row in logits.tolist()]
    return [[power / sum(row) for power in row] for row in powers]


def kl(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def clamp(row: list[float]) -> list[float]:
    return [min(max(value, 0.01), 0.99) for value in row]


def mean(p: list[float], q: list[float]) -> list[float]:
    return [(a + b) / 2 for a, b in zip(p, q, strict=True)]


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_jensen_shannon_by_brute_force(temperature: float) -> None:
    """KL(p || m) and KL(q || m), as eq. 2 has it."""
    one, other = random(5, 4), random(5, 4, seed=1)
    pairs = list(zip(softmax(one, temperature), softmax(other, temperature), strict=True))
    expected = sum((kl(p, mean(p, q)) + kl(q, mean(p, q))) / 2 for p, q in pairs) / 5
    assert float(jensen_shannon(one, other, temperature)) == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_jensen_shannon_of_the_code_by_brute_force(temperature: float) -> None:
    """The other direction, KL(m || p) and KL(m || q), of clamped rows that are not normalised
    again; m is clamped by itself."""
    one, other = random(5, 4), random(5, 4, seed=1)
    expected = 0.0
    for p, q in zip(softmax(one, temperature), softmax(other, temperature), strict=True):
        middle = clamp(mean(p, q))
        expected += (kl(middle, clamp(p)) + kl(middle, clamp(q))) / 2 / 5
    assert 0 < expected < 1
    assert float(jensen_shannon_clamped(one, other, temperature)) == pytest.approx(expected)


def test_opposite_answers() -> None:
    """One-hot answers to two classes of ten. Paper: ln 2, the most there is.

    Code: 1/2 ln(1/2 / 0.99) + 1/2 ln(1/2 / 0.01) = 1.61, clamped to 1, where its gradient is gone.
    """
    one = torch.full((3, 10), -40.0).index_fill(1, torch.tensor([0]), 40.0).requires_grad_()
    other = torch.full((3, 10), -40.0).index_fill(1, torch.tensor([1]), 40.0)
    assert float(jensen_shannon(one, other).detach()) == pytest.approx(math.log(2))
    assert 0.5 * math.log(0.5 / 0.99) + 0.5 * math.log(0.5 / 0.01) == pytest.approx(1.61, abs=0.01)
    clamped = jensen_shannon_clamped(one, other)
    clamped.backward()
    assert float(clamped.detach()) == 1
    assert one.grad is not None
    assert not one.grad.any()


def test_equal_answers_do_not_disagree() -> None:
    logits = random(6, 5).float().requires_grad_()
    value = jensen_shannon(logits, logits.detach())
    value.backward()
    assert float(value.detach()) == pytest.approx(0, abs=1e-7)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_the_paper_form_stays_finite_for_any_finite_logits(size: float) -> None:
    logits = (size * random(4, 3).float()).requires_grad_()
    jensen_shannon(logits, -logits.detach()).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_distillation_by_brute_force_has_the_teacher_first(temperature: float) -> None:
    student, teacher = random(5, 4), random(5, 4, seed=1)
    pairs = list(zip(softmax(teacher, temperature), softmax(student, temperature), strict=True))
    forward, backward = (
        sum(kl(*order) for order in pair) / 5 for pair in (pairs, [(s, t) for t, s in pairs])
    )
    assert float(distillation(student, teacher, temperature)) == pytest.approx(
        temperature**2 * forward
    )
    assert forward != pytest.approx(backward)


def test_distillation_of_the_same_model_pulls_nowhere() -> None:
    logits = random(6, 5).float().requires_grad_()
    loss = distillation(logits, logits.detach())
    loss.backward()
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-7, rtol=0)


def test_bernoulli_makes_every_class_a_yes_or_no() -> None:
    """A mean over all (sample, class) pairs of the divergence between (s, 1 - s) for s =
    sigmoid(z)."""
    one, other = random(3, 4), random(3, 4, seed=1)
    answers = [
        [1 / (1 + math.exp(-z)) for z in logits.flatten().tolist()] for logits in (one, other)
    ]
    pairs = [([a, 1 - a], [b, 1 - b]) for a, b in zip(*answers, strict=True)]
    expected = sum(kl(p, mean(p, q)) + kl(q, mean(p, q)) for p, q in pairs) / 2 / 12
    assert float(jensen_shannon(bernoulli(one), bernoulli(other))) == pytest.approx(expected)
    expected = sum(kl(q, p) for p, q in pairs) / 12
    assert float(distillation(bernoulli(one), bernoulli(other))) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 2, 2)])
def test_statistics_distance_by_brute_force(shape: tuple[int, ...]) -> None:
    values, kept_mean, kept_variance = random(*shape), random(3, seed=1), random(3, seed=2).abs()
    means, variances = 0.0, 0.0
    for channel in range(3):
        numbers = values[:, channel].flatten().tolist()
        average = sum(numbers) / len(numbers)
        means += (average - float(kept_mean[channel])) ** 2
        variances += (
            sum((x - average) ** 2 for x in numbers) / len(numbers) - float(kept_variance[channel])
        ) ** 2
    expected = math.sqrt(means) + math.sqrt(variances)
    assert float(statistics_distance(values, kept_mean, kept_variance)) == pytest.approx(expected)
