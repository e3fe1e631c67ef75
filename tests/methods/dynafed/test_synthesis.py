"""DynaFed's synthesis: a step known by hand, derivatives against finite differences, segments, what
is not finite, the repair."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedmirage.common.learning.losses import cosine_ratio, soft_cross_entropy, squared_ratio
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.models.factory import build
from fedmirage.server.methods.dynafed import synthesis as module
from fedmirage.server.methods.dynafed.repair import refine
from fedmirage.server.methods.dynafed.student import Student
from fedmirage.server.methods.dynafed.synthesis import (
    DISTANCES,
    InnerStep,
    Learned,
    inner_step,
    matching_gradients,
    plans,
    recomputed_gradients,
    synthesise,
)
from fedmirage.server.methods.dynafed.trajectory import MatchedWeights, Segments, unchanged

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Line(nn.Module):
    """Two logits w1 x and w2 x of one pixel x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 1, dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T


def pixel(x: float, q: float, rate: float) -> Learned:
    """One image of one pixel with the soft label (q, 1 - q)."""
    labels = torch.tensor([[math.log(q), math.log(1 - q)]], dtype=torch.float64)
    learned = Learned(
        torch.full((1, 1, 1, 1), x, dtype=torch.float64),
        labels,
        torch.tensor(rate, dtype=torch.float64),
    )
    for tensor in learned.tensors():
        tensor.requires_grad_()
    return learned


def test_one_step_by_hand() -> None:
    """At w = 0 both outputs are 1/2, so the gradient of the loss, which is divided by C = 2, is
    (1/2 - q) x / 2 for w1 and its negative for w2. With q = 0.9, eta = 0.5 a step leads to 0.5 *
    0.4 / 2 * x (1, -1) = 0.1 x (1, -1). The target (0.3, -0.3) is met exactly by x = 3. For x = 2
    the ratio is ((0.3 - 0.2) / 0.3)^2 = 1/9, and d/dx (1 - x/3)^2 = -2 (1 - x/3) / 3 = -2/9. By
    eta, with 1 - (x/3)(eta/0.5): -2 (1/3) (2/3) / 0.5 = -8/9.
    """
    student, start = Student(Line(), 2), torch.zeros(2, dtype=torch.float64)
    target = torch.tensor([0.3, -0.3], dtype=torch.float64)
    after = inner_step(
        student, start.clone().requires_grad_(), pixel(3, 0.9, 0.5), InnerStep(None, None)
    )
    np.testing.assert_allclose(after.detach().numpy(), [0.3, -0.3], atol=1e-12)
    loss, gradients = matching_gradients(
        student, (start, target), squared_ratio, pixel(2, 0.9, 0.5), [InnerStep(None, None)]
    )
    assert float(loss) == pytest.approx(1 / 9)
    assert float(gradients[0]) == pytest.approx(-2 / 9)
    assert float(gradients[2]) == pytest.approx(-8 / 9)


def test_the_optimal_step_is_found() -> None:
    """As above: only the product eta x (q - 1/2) / 2 = 0.3 matters, not its three factors."""
    path = [[np.zeros((2, 1))], [np.array([[0.3], [-0.3]])]]
    params = DynaFed(per_class=1, iterations=200, steps=1, augment=False, lr_images=0.05)
    segments = Segments.of([path], 1, CPU)
    found = synthesise(params, Student(Line(), 2), segments, pixel(1, 0.6, 0.5).copy(), generator())
    x, labels, rate = (tensor.flatten() for tensor in found.learned.tensors())
    assert float(rate * x * (torch.softmax(labels, 0)[0] - 0.5) / 2) == pytest.approx(0.3, abs=0.01)
    assert found.losses[0] > 0.8
    assert found.losses[-1] < 1e-3


def test_losses_by_hand() -> None:
    """Uniform labels and outputs over 4 classes give (ln 4) / 4.

    From (3, 0) towards (0, 4), the squared ratio at (0, 1) is 9/25.
    """
    assert float(soft_cross_entropy(torch.zeros(2, 4), torch.zeros(2, 4))) == pytest.approx(
        math.log(4) / 4
    )
    start, target = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])
    assert float(squared_ratio(torch.tensor([0.0, 1.0]), target, start)) == pytest.approx(9 / 25)
    assert float(cosine_ratio(torch.tensor([1.0, 1.0]), target, start)) == pytest.approx(
        1 - math.sqrt(0.5), abs=1e-6
    )
    for ratio in DISTANCES.values():
        assert float(ratio(start, target, start)) == 1


def problem(
    model: str, by_hand: bool = True, **params: Any
) -> tuple[DynaFed, Student, tuple[Tensor, Tensor], Learned, list[InnerStep]]:
    """A small network in double precision, a segment, a partly learned set, and three steps."""
    settings = DynaFed(**{"per_class": 2, "steps": 3, "rate": 0.5, **params})
    network = build(model, (1, 8, 8), 3).double()
    start = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    target = start + 0.1 * torch.randn(len(start), generator=generator(1), dtype=torch.float64)
    blank = Learned.blank(settings, (1, 8, 8), 3, generator(2))
    blank.labels += torch.randn(blank.labels.shape, generator=generator(3))
    learned = Learned(*(tensor.double().requires_grad_() for tensor in blank.tensors()))
    return (
        settings,
        Student(network, 3, by_hand),
        (start, target),
        learned,
        list(plans(settings, 6, generator(4))),
    )


@pytest.mark.parametrize("distance", ["squared", "cosine"])
@pytest.mark.parametrize(
    "model",
    ["mlp(hidden=6)", "convnet(width=3, depth=1)", "convnet(width=3, depth=1, norm='batch')"],
)
def test_derivatives_against_finite_differences(model: str, distance: str) -> None:
    _, student, segment, learned, steps = problem(model)
    measure = DISTANCES[distance]
    _, gradients = matching_gradients(student, segment, measure, learned, steps)
    for place, gradient in enumerate(gradients):
        direction = torch.randn(gradient.shape, generator=generator(5), dtype=torch.float64)
        around = []
        for sign in (1, -1):
            moved = learned.copy()
            moved.tensors()[place].add_(direction, alpha=sign * 1e-6)
            for tensor in moved.tensors():
                tensor.requires_grad_()
            around.append(float(matching_gradients(student, segment, measure, moved, steps)[0]))
        assert float((gradient * direction).sum()) == pytest.approx(
            (around[0] - around[1]) / 2e-6, rel=1e-3, abs=1e-9
        )


def test_an_iteration_without_derivatives_by_hand_gives_the_same_numbers() -> None:
    """In double precision the two differ by at most 1e-11 of the largest derivative."""
    results = []
    for by_hand in (True, False):
        _, student, segment, learned, steps = problem("convnet(width=3, depth=2)", by_hand)
        assert (student.by_hand is not None) is by_hand
        loss, gradients = matching_gradients(student, segment, squared_ratio, learned, steps)
        results.append([loss, *gradients])
    for found, expected in zip(*results, strict=True):
        assert (found - expected).abs().max() <= 1e-11 * expected.abs().max()


@pytest.mark.parametrize("syn_batch", [None, 4])
def test_recomputation_gives_the_same_derivatives(syn_batch: int | None) -> None:
    _, student, segment, learned, steps = problem(
        "convnet(width=3, depth=1, norm='batch')", syn_batch=syn_batch
    )
    assert [step.index is None for step in steps] == [syn_batch is None] * 3
    whole = matching_gradients(student, segment, squared_ratio, learned, steps)
    again = recomputed_gradients(student, segment, squared_ratio, learned, steps)
    assert torch.equal(whole[0], again[0])
    for one, other in zip(whole[1], again[1], strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-14)


def test_every_pass_sees_every_sample_once() -> None:
    steps = list(plans(DynaFed(steps=3, syn_batch=4), 8, generator()))
    drawn = [index for step in steps[:2] if step.index is not None for index in step.index.tolist()]
    assert sorted(drawn) == list(range(8))


def test_the_students_buffers_stay_as_they_are() -> None:
    _, student, segment, learned, steps = problem("convnet(width=3, depth=1, norm='batch')")
    before = [buffer.clone() for buffer in student.model.buffers()]
    matching_gradients(student, segment, squared_ratio, learned, steps)
    assert all(
        torch.equal(one, other) for one, other in zip(before, student.model.buffers(), strict=True)
    )


# The path


def checkpoints(*values: float) -> list[list[np.ndarray]]:
    return [[np.array([value], np.float32)] for value in values]


def drawn(segments: Segments, count: int = 300, **params: Any) -> set[tuple[float, float]]:
    chance = generator()
    pairs = [segments.draw(DynaFed(**params), chance) for _ in range(count)]
    return {(float(pair[0]), round(float(pair[1]), 4)) for pair in pairs if pair is not None}


def test_segments_and_targets() -> None:
    """0, 1, 4, 9 with s = 2: starts 0 and 1; targets w^{t+2}, or means of two of the next two,
    drawn with replacement."""
    segments = Segments.of([checkpoints(0, 1, 4, 9)], 2, CPU)
    assert drawn(segments, target="last") == {(0, 4), (1, 9)}
    assert drawn(segments) == {(0, 1), (0, 2.5), (0, 4), (1, 4), (1, 6.5), (1, 9)}
    assert drawn(segments, draws=(1, 2)) == drawn(segments)
    assert len(drawn(segments, draws=(3,))) == 8  # thirds
    weighted = {target for start, target in drawn(segments, random_weights=True) if start == 0}
    assert min(weighted) == 1
    assert max(weighted) == 4
    assert len(weighted) > 20


def test_a_short_path_shrinks_the_segment() -> None:
    segments = Segments.of([checkpoints(0, 1)], 5, CPU)
    assert (segments.length, segments.starts) == (1, [(0, 0)])


def test_a_path_that_is_too_short_beside_a_longer_one_is_never_drawn() -> None:
    """The code samples it and stops with an error."""
    segments = Segments.of([checkpoints(0, 1, 4), [], checkpoints(7)], 2, CPU)
    assert segments.starts == [(0, 0)]


def test_a_start_that_is_its_own_target_is_drawn_again() -> None:
    """0 to 0 would be divided by zero."""
    assert drawn(Segments.of([checkpoints(0, 0, 1)], 1, CPU)) == {(0, 1)}
    assert Segments.of([checkpoints(0, 0)], 1, CPU).draw(DynaFed(), generator()) is None


def test_checkpoints_are_copies() -> None:
    """On a CPU the code's checkpoints are all the live model."""
    network = nn.Linear(2, 1)
    live = [tensor.detach().numpy() for tensor in network.parameters()]
    layout = MatchedWeights.of(network, network, live)
    kept = layout.checkpoint(live)
    with torch.no_grad():
        network.weight.add_(1)
    assert not unchanged(kept, layout.checkpoint(live))
    assert not any(np.shares_memory(one, other) for one, other in zip(kept, live, strict=True))


def test_a_wider_head_is_cut() -> None:
    """VHL adds outputs: path and student have the real classes only."""
    wide, narrow = (build("mlp(hidden=4, layers=1)", (1, 2, 2), 3, extra) for extra in (2, 0))
    arrays = [tensor.detach().numpy() for tensor in wide.parameters()]
    cut = MatchedWeights.of(wide, narrow, arrays).checkpoint(arrays)
    assert [array.shape for array in cut] == [
        tuple(parameter.shape) for parameter in narrow.parameters()
    ]
    np.testing.assert_array_equal(cut[-2], arrays[-2][:3])


# What is not finite


def run_with(
    monkeypatch: pytest.MonkeyPatch, bad: set[int], iterations: int, rate: float = 0.04
) -> Any:
    """Synthesise with derivatives that are 1, and in some iterations not finite.

    Returns the values before every iteration.
    """
    count = iter(range(iterations))

    def fake(
        student: Any, segment: Any, measure: Any, learned: Learned, steps: Any
    ) -> tuple[Tensor, list[Tensor]]:
        value = math.nan if next(count) in bad else 1.0
        return torch.tensor(0.5), [torch.full_like(tensor, value) for tensor in learned.tensors()]

    monkeypatch.setattr(module, "matching_gradients", fake)
    params = DynaFed(per_class=1, iterations=iterations, steps=1, rate=rate)
    seen: list[tuple[float, float]] = []
    segments = Segments.of([checkpoints(0, 1)], 1, CPU)
    blank = Learned.blank(params, (1, 1, 1), 2, generator())
    origin = float(blank.images[0])
    result = synthesise(
        params,
        Student(Line(), 2),
        segments,
        blank,
        generator(),
        lambda _, now: seen.append(
            (float(now.learned.images[0].detach()) - origin, float(now.learned.rate.detach()))
        ),
    )
    return result, seen


def test_what_is_not_finite_undoes_the_step_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam moves an image by 0.05 per step.

    The step of iteration 1 led to the failure in 2, so 3 begins where 1 began.
    """
    result, seen = run_with(monkeypatch, {2}, 4)
    assert [round(moved / -0.05) for moved, _ in seen] == [0, 1, 2, 1, 2]
    assert (result.failures, len(result.losses)) == (1, 3)


def test_ten_failures_in_a_row_halve_the_rate_down_to_its_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, seen = run_with(monkeypatch, set(range(25)), 25)
    assert [rate for _, rate in seen[:10]] == pytest.approx([0.04] * 10)
    assert seen[10][1] == pytest.approx(0.02)
    assert seen[-1][1] == pytest.approx(0.01)
    result, seen = run_with(monkeypatch, set(range(40)), 40, rate=2e-6)
    assert seen[-1][1] == pytest.approx(1e-6)
    assert result.loss == math.inf


def test_the_rate_stays_positive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam lowers it by 1e-5 per step."""
    _, seen = run_with(monkeypatch, set(), 5, rate=2e-5)
    assert [rate for _, rate in seen] == pytest.approx(
        [2e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-6], rel=0.01
    )


def test_sgd_moves_with_momentum_one_half() -> None:
    learned = pixel(0, 0.5, 0.5)
    optimizer = module.make_optimizer(DynaFed(optimizer="sgd", lr_images=1.0), learned)
    for _ in range(2):
        module.update(optimizer, learned, [torch.ones_like(tensor) for tensor in learned.tensors()])
    assert float(learned.images.detach()) == -2.5  # 1, then 1 + 0.5


# The repair


def test_repair_is_adam_on_the_set() -> None:
    """One epoch of one batch: every weight whose gradient is not zero moves by lr, against its
    sign. Nothing else is touched."""
    model = build("mlp(hidden=4, layers=1)", (1, 2, 2), 3, 2)
    names, average = (
        tuple(model.state_dict()),
        [tensor.numpy().copy() for tensor in model.state_dict().values()],
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    params = DynaFed(epochs=1, lr=0.01, augment=False)
    images, labels = torch.randn(6, 1, 2, 2, generator=generator()), torch.eye(3).repeat(2, 1) * 5
    repaired = refine(params, model, names, average, images, labels, generator())
    assert repaired is not None
    assert all(float(parameter.detach().abs().sum()) == 0 for parameter in model.parameters())
    moved = np.abs(repaired[-1] - average[-1])
    np.testing.assert_allclose(moved[:3], 0.01, rtol=1e-3)
    assert moved[3:].tolist() == [0, 0]  # outputs beyond the real classes
    np.testing.assert_array_equal(repaired[-2][3:], average[-2][3:])
    assert (
        refine(
            params.model_copy(update={"lr": 1e36, "epochs": 5}),
            model,
            names,
            average,
            images,
            labels,
            generator(),
        )
        is None
    )


def test_repair_estimates_batch_norm_anew() -> None:
    """Three passes over the set, and then one of training (with nearly no learning rate), move the
    statistics a tenth of the way each."""
    model = build("convnet(width=2, depth=1, norm='batch')", (1, 8, 8), 2)
    names = tuple(model.state_dict())
    average = [tensor.numpy().copy() for tensor in model.state_dict().values()]
    images, labels = torch.randn(4, 1, 8, 8, generator=generator()) + 3, torch.zeros(4, 2)
    params = DynaFed(epochs=1, lr=1e-30, augment=False)
    repaired = refine(params, model, names, average, images, labels, generator())
    assert repaired is not None
    batch_mean = model.features.stage1.conv(images).mean(dim=(0, 2, 3)).detach().numpy()  # type: ignore[union-attr,operator]
    position = names.index("features.stage1.norm.running_mean")
    np.testing.assert_allclose(repaired[position], (1 - 0.9**4) * batch_mean, rtol=1e-4)
    np.testing.assert_array_equal(repaired[0], average[0])
