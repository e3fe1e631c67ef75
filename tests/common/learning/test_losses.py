"""Every loss against a brute-force sum in plain Python, and the limits that its method needs."""

import math

import pytest
import torch

from fedmirage.common.learning.losses import (
    contrast,
    decorrelation,
    divergences,
    inner_product,
    kernel_discrepancy,
    row_distances,
    squared_distance,
)
from fedmirage.common.learning.steps import effective_steps


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_squared_distance_squares_the_norm() -> None:
    """(3, 4) is 5 away from the origin, and 25 is what counts; norms of tensors are summed as
    squares: 25 + 144."""
    weights = [torch.tensor([3.0, 4.0]), torch.tensor([[12.0]])]
    assert squared_distance(weights, [torch.zeros(2), torch.zeros(1, 1)]) == 169


def test_the_gradient_of_the_squared_distance() -> None:
    """d/dw (1/2) ||w - r||^2 = w - r."""
    weight, fixed = random(3, 2).requires_grad_(), random(3, 2, seed=1)
    (squared_distance([weight], [fixed]) / 2).backward()
    torch.testing.assert_close(weight.grad, weight.detach() - fixed)


def test_the_gradient_of_the_inner_product_is_exact() -> None:
    """SCAFFOLD adds c - c_i to the gradient as the gradient of <c - c_i, w>: the very same bits."""
    weights = [random(3, 2).requires_grad_(), random(4, seed=1).requires_grad_()]
    direction = [random(3, 2, seed=2), random(4, seed=3)]
    total = inner_product(weights, direction)
    total.backward()
    assert all(
        torch.equal(weight.grad, fixed) for weight, fixed in zip(weights, direction, strict=True)
    )
    flat, along = (
        torch.cat([tensor.detach().flatten() for tensor in tensors]).tolist()
        for tensors in (weights, direction)
    )
    products = [one * other for one, other in zip(flat, along, strict=True)]
    assert float(total.detach()) == pytest.approx(sum(products))


def test_contrast_by_brute_force() -> None:
    features, positive, negative = random(5, 3), random(5, 3, seed=1), random(5, 3, seed=2)

    def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
        return float((a * b).sum()) / math.sqrt(float((a * a).sum()) * float((b * b).sum()))

    expected = 0.0
    for z, near, far in zip(features, positive, negative, strict=True):
        up, down = math.exp(cosine(z, near) / 0.5), math.exp(cosine(z, far) / 0.5)
        expected -= math.log(up / (up + down)) / 5
    assert float(contrast(features, positive, negative, 0.5)) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_contrast_with_itself_is_log_2_and_pulls_nowhere(dtype: torch.dtype) -> None:
    features, reference = (
        random(64, 84).to(dtype).requires_grad_(),
        random(64, 84, seed=1).to(dtype),
    )
    loss = contrast(features, reference, reference, 0.5)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log(2))
    assert features.grad is not None
    assert not features.grad.any()


def test_contrast_of_features_that_are_all_zero() -> None:
    """ReLU may switch every feature of a sample off."""
    features = torch.zeros(2, 3, requires_grad=True)
    contrast(features, torch.ones(2, 3), torch.zeros(2, 3), 0.5).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_decorrelation_by_brute_force() -> None:
    """With s the standardised features (n - 1 in the variance), the mean over all pairs j != k of
    (sum_i s_ij s_ik)^2, over n."""
    features = random(6, 4)
    columns = []
    for column in features.T.tolist():
        mean = sum(column) / 6
        deviation = math.sqrt(sum((x - mean) ** 2 for x in column) / 5 + 1e-8)
        columns.append([(x - mean) / deviation for x in column])
    pairs = [(j, k) for j in range(4) for k in range(4) if j != k]
    squares = [
        sum(a * b for a, b in zip(columns[j], columns[k], strict=True)) ** 2 for j, k in pairs
    ]
    assert float(decorrelation(features)) == pytest.approx(sum(squares) / len(squares) / 6)


def test_decorrelation_of_two_equal_features() -> None:
    """Correlation 1 for both pairs: (n - 1)^2 / n, here 9 / 4."""
    column = torch.tensor([1.0, 2.0, 4.0, 8.0])
    assert float(decorrelation(torch.stack([column, column], dim=1))) == pytest.approx(
        9 / 4, rel=1e-5
    )


@pytest.mark.parametrize("shape", [(1, 5), (5, 1)])
def test_decorrelation_of_one_sample_or_one_feature_is_zero(shape: tuple[int, int]) -> None:
    assert float(decorrelation(random(*shape))) == 0


def test_decorrelation_survives_a_constant_feature() -> None:
    features = torch.cat([random(8, 3), torch.ones(8, 1)], dim=1).requires_grad_()
    decorrelation(features).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_effective_steps_is_the_weight_of_all_gradients(steps: int, momentum: float) -> None:
    """With a constant gradient of 1 and learning rate 1, SGD moves by exactly a_i."""
    weight = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=momentum)
    for _ in range(steps):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    assert -float(weight.detach()) == pytest.approx(effective_steps(steps, momentum))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 10.0])
def test_divergences_in_both_directions_by_brute_force(temperature: float, reverse: bool) -> None:
    """sum_c p_c log(p_c / q_c) per sample, p the teacher (in reverse the student), without T^2."""
    student = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    teacher = torch.tensor([[0.2, 0.1, -1.0], [4.0, -1.0, 0.0]], dtype=torch.float64)
    expected = []
    for row, other in zip(student.tolist(), teacher.tolist(), strict=True):
        powers = [[math.exp(x / temperature) for x in logits] for logits in (other, row)]
        p, q = ([power / sum(group) for power in group] for group in powers)
        if reverse:
            p, q = q, p
        expected.append(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))
    found = divergences(student, teacher, temperature, reverse)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert not torch.allclose(found, divergences(student, teacher, temperature, not reverse))


def test_row_distances_by_brute_force() -> None:
    """One distance per output node of a convolution; the row in which g is zero is left out."""
    g, h = random(4, 2, 3, 3), random(4, 2, 3, 3, seed=1)
    g[2] = 0
    expected = []
    for row in (0, 1, 3):
        a, b = g[row].flatten().tolist(), h[row].flatten().tolist()
        norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
        expected.append(1 - sum(x * y for x, y in zip(a, b, strict=True)) / (norms + 1e-6))
    assert row_distances(g, h).tolist() == pytest.approx(expected)


def test_row_distances_know_directions_only_and_zero_rows_give_no_gradient() -> None:
    g, h = random(3, 5), random(3, 5, seed=1)
    torch.testing.assert_close(row_distances(g, h), row_distances(7 * g, 3 * h), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        row_distances(g, g), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-5
    )
    found = torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)  # dead filters
    distances = row_distances(g, found)
    assert distances.tolist() == [1, 1, 1]
    distances.sum().backward()
    assert found.grad is not None
    assert bool(found.grad.isfinite().all())


def test_kernel_discrepancy_by_brute_force() -> None:
    one, other = random(3, 4), 2 + random(5, 4, seed=1)
    rows = [*one.tolist(), *other.tolist()]

    def squared(a: list[float], b: list[float]) -> float:
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    mean = sum(squared(a, b) for a in rows for b in rows) / (8 * 7)

    def kernel(a: list[float], b: list[float]) -> float:
        return sum(math.exp(-squared(a, b) / (mean * width)) for width in (0.25, 0.5, 1, 2, 4))

    def between(first: list[list[float]], second: list[list[float]]) -> float:
        return sum(kernel(a, b) for a in first for b in second) / (len(first) * len(second))

    ours, theirs = one.tolist(), other.tolist()
    expected = between(ours, ours) + between(theirs, theirs) - 2 * between(ours, theirs)
    assert float(kernel_discrepancy(one, other)) == pytest.approx(expected)
    assert float(kernel_discrepancy(one, one)) == pytest.approx(0)
    assert float(kernel_discrepancy(torch.ones(2, 3), torch.ones(4, 3))) == 0
