"""Distribution matching: the loss, a step by hand, the shared change, and steps that fail."""

import itertools

import pytest
import torch
from torch import Tensor

from fedmirage.client.methods.distil.client import begin_matching, build_extractor, step_generator
from fedmirage.client.methods.distil.matching import (
    Matching,
    RealImages,
    distance_of_means,
    make_step,
    match_distributions,
    matching_loss,
)
from fedmirage.common.learning import diffaugment
from fedmirage.common.methods.distil import Distil
from fedmirage.common.methods.distil.declaration import OPERATIONS
from fedmirage.common.seeds import torch_generator
from tests.support.distil import local_client, real_images

PLAIN = Distil(augment="")
LABELS = [0] * 9 + [1] * 7 + [3] * 5


def doubled(images: Tensor) -> Tensor:
    """An extractor that can be followed by hand."""
    return 2 * images.flatten(1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_distance_is_that_of_a_double_loop() -> None:
    virtual, real = torch.randn(3, 5, generator=generator()), torch.randn(4, 5)
    total = 0.0
    for value in range(5):
        mean_virtual = sum(float(row[value]) for row in virtual) / 3
        mean_real = sum(float(row[value]) for row in real) / 4
        total += (mean_virtual - mean_real) ** 2
    assert float(distance_of_means(virtual, real)) == pytest.approx(total, rel=1e-5)


def test_the_loss_is_the_sum_over_classes_of_all_their_images() -> None:
    """With fewer real images than `real_per_class`, every one of them counts in every step."""
    local = local_client(LABELS)
    real, matching = RealImages.of(local), begin_matching(PLAIN, local, RealImages.of(local))
    extractor = build_extractor(local, 0)
    loss = matching_loss(matching.images, matching.labels, real, PLAIN, extractor, generator())
    expected = sum(
        float(
            distance_of_means(
                extractor(matching.images[matching.labels == label]), extractor(real.all(label))
            )
        )
        for label in (0, 1, 3)
    )
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_two_steps_by_hand() -> None:
    """One real pixel r = 1, two virtual ones, features 2x: L = 4 (mean v - r)^2, and each virtual
    pixel has the gradient 4 (mean v - r).

    Step 1: v = (0, 0.5), L = 4 * 0.75^2 = 2.25, gradient -3, so v = (0.3, 0.8) at lr 0.1.
    Step 2: L = 4 * 0.45^2 = 0.81, gradient -1.8, velocity 0.5 * -3 - 1.8 = -3.3, so
    v = (0.63, 1.13): beyond white, since nothing is clamped.
    """
    real, params = real_images([[255]], [0]), PLAIN.model_copy(update={"pixel_lr": 0.1})
    matching = Matching.begin(
        torch.tensor([0.0, 0.5]).view(2, 1, 1, 1), torch.tensor([0, 0]), lr=params.pixel_lr
    )
    make_step(matching, real, params, doubled, generator())
    assert matching.loss == pytest.approx(2.25)
    torch.testing.assert_close(matching.images.flatten(), torch.tensor([0.3, 0.8]))
    make_step(matching, real, params, doubled, generator())
    assert matching.loss == pytest.approx(0.81)
    torch.testing.assert_close(matching.images.flatten(), torch.tensor([0.63, 1.13]))
    assert matching.step == 2


def test_the_loss_falls() -> None:
    """Compared under networks that no step has seen."""
    local = local_client(LABELS, model="convnet(width=4, depth=1)")
    real, params = RealImages.of(local), Distil(start="noise", real_per_class=4)

    def loss(matching: Matching) -> float:
        return sum(
            float(
                matching_loss(
                    *(matching.images, matching.labels, real, PLAIN),
                    *(build_extractor(local, step), step_generator(local, step)),
                )
            )
            for step in range(1000, 1005)
        )

    matching = begin_matching(params, local, real)
    before = loss(matching)
    for number in range(40):
        make_step(
            *(matching, real, params),
            *(build_extractor(local, number), step_generator(local, number)),
        )
    assert loss(matching) < 0.3 * before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 7, 9)])
def test_real_and_virtual_images_are_changed_alike(
    operation: str, shape: tuple[int, int, int]
) -> None:
    """If the virtual images are the real ones, no change can tell them apart."""
    local = local_client(LABELS, shape, model="convnet(width=2, depth=1)")
    real = RealImages.of(local)
    images = torch.cat([real.all(label) for label in (0, 1, 3)])
    labels = torch.tensor(LABELS)
    for step in range(3):
        how = build_extractor(local, step), step_generator(local, step)
        loss = matching_loss(images, labels, real, Distil(augment=operation), *how)
        assert float(loss) < 1e-8


def test_the_names_of_changes_are_those_that_exist() -> None:
    assert tuple(diffaugment.OPERATIONS) == OPERATIONS
    found = {
        diffaugment.draw_once(generator(seed), ("crop", "flip")).operation for seed in range(20)
    }
    assert found == {"crop", "flip"}


def test_real_images_are_drawn_without_replacement() -> None:
    real = real_images([[value] for value in range(10)] + [[200]], [0] * 10 + [1])
    values = real.draw(0, 6, generator()).flatten().tolist()
    assert len(set(values)) == 6
    assert len(real.draw(0, 256, generator())) == 10
    assert real.draw(1, 3, generator()).flatten().tolist() == [pytest.approx(200 / 127.5 - 1)]


def test_a_step_that_is_not_finite_is_undone_and_the_rate_halved() -> None:
    """The second of three networks gives features whose squares overflow."""
    real = real_images([[255, 0], [250, 10]], [0, 0])
    matching = Matching.begin(torch.zeros(1, 1, 1, 2), torch.tensor([0]), lr=0.1)
    seen: list[list[float]] = []

    def extractor_for(number: int):
        seen.append(matching.images.flatten().tolist())
        return (lambda images: 1e30 * images.flatten(1)) if number == 1 else doubled

    match_distributions(matching, real, PLAIN, extractor_for, generator, 3)
    assert seen[2] == seen[1] != seen[0]
    assert (matching.step, matching.setbacks, matching.lr) == (3, 1, 0.05)
    assert matching.images.isfinite().all()
    expected = torch.tensor(seen[1]) - 0.05 * 4 * 2 * (
        torch.tensor(seen[1]) - real.all(0).mean(0).flatten()
    )
    torch.testing.assert_close(matching.images.flatten(), expected)


def test_at_least_one_step_is_made_however_little_time_there_is() -> None:
    matching = Matching.begin(torch.zeros(1, 1, 1, 1), torch.tensor([0]), lr=0.1)
    for made in (1, 2, 2):
        match_distributions(
            matching, real_images([[255]], [0]), PLAIN, lambda _: doubled, generator, 2, until=0.0
        )
        assert matching.step == made


def test_every_step_has_a_network_of_its_own_that_is_not_trained() -> None:
    local = local_client(LABELS, model="convnet(width=2, depth=1, norm='batch')")
    networks = [build_extractor(local, step) for step in (0, 1, 0)]
    first, other, again = (list(network.parameters()) for network in networks)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    elsewhere = build_extractor(local_client(LABELS, partition=1), 0)
    assert not torch.equal(next(elsewhere.parameters()).flatten()[:2], first[0].flatten()[:2])
    assert not any(parameter.requires_grad for parameter in itertools.chain(first, other))


def test_batch_norm_does_not_mix_images_or_change() -> None:
    """Else the means that are matched would be subtracted, or depend on who else is in a batch."""
    local = local_client(LABELS, model="convnet(width=2, depth=1, norm='batch')")
    network, images = build_extractor(local, 0), RealImages.of(local).all(0)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    torch.testing.assert_close(network(images)[:1], network(images[:1]))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_the_generator_of_a_step_depends_on_seed_client_and_step() -> None:
    numbers = {
        step_generator(local_client(LABELS, partition=partition, seed=seed), step).initial_seed()
        for partition, seed, step in itertools.product((0, 1), repeat=3)
    }
    assert len(numbers) == 8
    assert torch_generator(0, "distil.step", 0, 0).initial_seed() in numbers
