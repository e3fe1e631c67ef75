"""FedCOG's generation on its own: the losses, the best images, frozen networks, every source and
option."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedmirage.client.methods.fedcog.canvas import Pixels
from fedmirage.client.methods.fedcog.generation import generate, synthesise, vary
from fedmirage.client.methods.fedcog.loss import GenerationLoss, batch_statistics
from fedmirage.common.learning.losses import jensen_shannon
from fedmirage.common.learning.task import TASKS
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import Model, frozen
from fedmirage.common.models.generators import ImageGenerator
from tests.support.fedcog import BATCH_NORM, FAST, another, local_round, made


def test_images_are_made_for_their_label_and_against_the_partner(tmp_path: Path) -> None:
    local, partner = local_round(tmp_path, [0] * 4), frozen(another())
    noise, alone, both = (
        made(local, partner, **options, samples=30, steps=60)
        for options in ({"source": "noise"}, {"lambda_dis": 0.0}, {"lambda_dis": 1.0})
    )
    for images in (alone, both):
        assert (images.logits.argmax(1) == images.labels).float().mean() > 0.75
    assert (noise.logits.argmax(1) == noise.labels).float().mean() < 0.6
    disagreement = [
        float(jensen_shannon(images.logits, partner(images.images))) for images in (alone, both)
    ]
    assert disagreement[1] > 1.2 * disagreement[0]


@pytest.mark.parametrize("disagreement", ["paper", "code"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_by_its_terms(tmp_path: Path, disagreement: Any, temperature: float) -> None:
    """CE + lambda_dis (1 - JS); without a partner, CE alone."""
    from fedmirage.common.learning.losses import jensen_shannon_clamped

    local, partner = local_round(tmp_path, [0] * 4), frozen(another())
    params = FedCog(disagreement=disagreement, temperature=temperature, lambda_dis=0.3)
    images, labels = torch.randn(5, 1, 6, 6), torch.tensor([0, 1, 2, 3, 0])
    with torch.no_grad():
        found = GenerationLoss(params, local.model, partner, local.task, 4)(images, labels)
        alone = GenerationLoss(params, local.model, None, local.task, 4)(images, labels)
        logits = local.model(images)
        divergence = {"paper": jensen_shannon, "code": jensen_shannon_clamped}[disagreement](
            local.model(images), partner(images), temperature
        )
    assert float(alone) == pytest.approx(float(nn.functional.cross_entropy(logits, labels)))
    assert float(found) == pytest.approx(float(alone) + 0.3 * (1 - float(divergence)))


@pytest.mark.parametrize("source", ["pixels", "generator", "noise"])
def test_logits_belong_to_their_images(tmp_path: Path, source: str) -> None:
    for augment in (False, True):
        local = local_round(tmp_path, [0] * 4)
        virtual = made(local, frozen(another()), source=source, augment=augment)
        assert virtual.images.shape == (12, 1, 6, 6)
        assert not virtual.images.requires_grad
        assert torch.equal(virtual.logits, local.model(virtual.images).detach())


def test_the_best_images_are_kept_and_not_the_last(tmp_path: Path) -> None:
    """A step of a thousand makes everything worse, so the initial noise is kept, unchanged."""
    local = local_round(tmp_path, [0] * 4)
    start = made(local, source="noise")
    wild = made(local, lr=1000.0)
    assert torch.equal(wild.images, start.images)
    assert torch.equal(wild.logits, start.logits)
    assert wild.loss == start.loss
    better = made(local)
    assert better.loss < start.loss


def test_without_steps_pixels_are_noise(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4)
    assert torch.equal(made(local, steps=0).images, made(local, source="noise").images)
    noise = made(local, source="noise", samples=400).images
    assert float(noise.mean()) == pytest.approx(0, abs=0.05)
    assert float(noise.std()) == pytest.approx(1, abs=0.05)


def test_one_step_by_hand() -> None:
    """Adam's first step is lr times the sign of the gradient. Teacher: logits (x, 0), so class 1
    wants x smaller."""
    teacher = Model(nn.Sequential(nn.Flatten()), nn.Linear(1, 2, bias=False), 1)
    with torch.no_grad():
        teacher.classifier.weight.copy_(torch.tensor([[1.0], [0.0]]))
    loss_of = GenerationLoss(
        FedCog(steps=1, lr=0.25), frozen(teacher), None, TASKS["single-label"], 2
    )
    start = torch.tensor([0.5, -2.0]).view(2, 1, 1, 1)
    virtual = generate(Pixels(start.clone()), torch.tensor([1, 0]), loss_of, torch.Generator())
    assert virtual is not None
    torch.testing.assert_close(virtual.images.flatten(), torch.tensor([0.25, -1.75]))
    torch.testing.assert_close(virtual.logits, torch.tensor([[0.25, 0.0], [-1.75, 0.0]]))
    expected = (np.log1p(np.exp(0.25)) + np.log1p(np.exp(1.75))) / 2
    assert virtual.loss == pytest.approx(expected)


@pytest.mark.parametrize("model", ["mlp(hidden=8)", BATCH_NORM])
@pytest.mark.parametrize("source", ["pixels", "generator"])
def test_frozen_networks_stay_frozen(tmp_path: Path, model: str, source: str) -> None:
    """No gradient, buffer or mode of the networks changes, nor does the model to be trained."""
    local, lambda_bn = (
        local_round(tmp_path, [0] * 4, model=model),
        0.1 if model == BATCH_NORM else 0.0,
    )
    local.model.train()
    teacher, partner = frozen(local.model), frozen(another(model))
    networks = (teacher, partner, local.model)
    before = [
        {name: value.clone() for name, value in network.state_dict().items()}
        for network in networks
    ]
    synthesise(FedCog(**FAST, source=source, lambda_bn=lambda_bn), local, teacher, partner)
    for network, state in zip(networks, before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
        assert all(parameter.grad is None for parameter in network.parameters())
    assert not any(
        module.training for network in (teacher, partner) for module in network.modules()
    )
    assert all(module.training for module in local.model.modules())
    assert all(parameter.requires_grad for parameter in local.model.parameters())


def test_generation_is_a_function_of_seed_round_and_partition(tmp_path: Path) -> None:
    def images(**where: Any) -> bytes:
        torch.rand(3)  # ambient randomness does not matter
        found: bytes = (
            made(local_round(tmp_path, [0] * 4, **where), frozen(another()))
            .images.numpy()
            .tobytes()
        )
        return found

    same = images()
    assert images() == same
    assert len({same, images(number=61), images(partition=1), images(seed=1)}) == 4


def test_a_shared_set_is_the_same_for_all(tmp_path: Path) -> None:
    """It depends neither on the client's data nor on its partner."""
    one = made(local_round(tmp_path, [0] * 4), frozen(another()), same_images=True)
    other = made(local_round(tmp_path, [1, 2, 3], partition=5), None, same_images=True)
    assert torch.equal(one.images, other.images)
    assert one.labels.tolist() == other.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


def test_small_batches_begin_from_the_same_noise(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4)
    for source in ("noise", "pixels", "generator"):
        whole, parts = (
            made(local, frozen(another()), source=source, batch=batch) for batch in (None, 5)
        )
        # 5, 5 and 2: the last one counts
        assert len(parts.labels) == len(parts.images) == len(parts.logits) == 12
        assert torch.equal(whole.labels, parts.labels)
    whole, parts = (made(local, source="noise", batch=batch) for batch in (None, 5))
    assert torch.equal(whole.images, parts.images)
    assert parts.loss == pytest.approx(whole.loss)


@pytest.mark.parametrize("source", ["pixels", "generator"])
def test_what_is_not_finite_ends_the_generation(tmp_path: Path, source: str) -> None:
    """The best that was finite stays; a step of 1e38 leaves nothing finite behind it."""
    local = local_round(tmp_path, [0] * 4)
    virtual = made(local, source=source, lr=1e38, steps=6)
    assert virtual.images.isfinite().all()
    assert virtual.logits.isfinite().all()
    assert virtual.loss < 10


def test_where_nothing_was_finite_there_is_nothing(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4)
    with torch.no_grad():
        local.model.classifier.weight.fill_(1e38)
        local.model.classifier.weight[0] = -1e38
        local.model.features[1].linear.weight.fill_(1e10)  # type: ignore[union-attr,operator]
    assert synthesise(FedCog(**FAST), local, frozen(local.model), None) is None
    assert local.report["fedcog.samples"] == 0


def test_a_wider_head_keeps_to_the_real_classes(tmp_path: Path) -> None:
    """Beside VHL the head has more outputs than there are classes."""
    local = local_round(tmp_path, [0] * 4, extra=4)
    virtual = made(local, frozen(another(extra=4)))
    assert virtual.logits.shape == (12, 4)
    assert int(virtual.labels.max()) == 3
    assert torch.equal(virtual.logits, local.model(virtual.images).detach()[:, :4])


def test_half_the_resolution_then_all_of_it(tmp_path: Path) -> None:
    coarse = vary(torch.arange(36.0).view(1, 1, 6, 6), False, True, torch.Generator())
    assert coarse[0, 0, :2].tolist() == [[3.5, 3.5, 5.5, 5.5, 7.5, 7.5]] * 2
    assert vary(torch.rand(2, 3, 7, 5), False, True, torch.Generator()).shape == (2, 3, 7, 5)
    local = local_round(tmp_path, [0] * 4)
    virtual = made(local, downsample=True, steps=20)
    assert torch.equal(virtual.logits, local.model(virtual.images).detach())
    assert virtual.loss < made(local, source="noise").loss


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_crops_and_flips_pass_gradients(layout: torch.memory_format) -> None:
    images = torch.randn(8, 3, 6, 6).contiguous(memory_format=layout).requires_grad_()
    varied = vary(images, True, False, torch.Generator().manual_seed(0))
    assert varied.is_contiguous(memory_format=layout)
    varied.sum().backward()
    assert images.grad is not None
    assert set(images.grad.unique().tolist()) == {0.0, 1.0}  # a pixel is shown once or cropped away
    known = set(images.detach().flatten().tolist()) | {0.0}
    assert set(varied.detach().flatten().tolist()) <= known


def test_the_generator_network() -> None:
    for shape in ((1, 28, 28), (3, 32, 32), (3, 30, 18)):
        network = ImageGenerator(256, shape, torch.Generator().manual_seed(0))
        images = network(torch.randn(4, 256)).detach()
        assert images.shape == (4, *shape)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
    assert network.linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
    again = ImageGenerator(256, shape, torch.Generator().manual_seed(0))
    assert all(
        torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True)
    )


def test_the_generators_pixels_are_normalised_like_real_ones(tmp_path: Path) -> None:
    images = made(local_round(tmp_path, [0] * 4), source="generator").images
    # (0 - 0.5) / 0.5 and (1 - 0.5) / 0.5
    assert -1 <= float(images.min()) <= float(images.max()) <= 1


def test_statistics_that_batch_norm_remembers_pull_the_images(tmp_path: Path) -> None:
    """The hooks are removed after every call, and the weight brings the statistics closer."""
    local = local_round(tmp_path, [0] * 4, model=BATCH_NORM)
    with torch.no_grad():
        for module in local.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.fill_(1.0)  # type: ignore[union-attr]
    teacher = frozen(local.model)

    def distance(virtual: Any) -> float:
        with torch.no_grad(), batch_statistics(teacher, True) as distances:
            teacher(virtual.images)
        return float(torch.stack(distances).sum())

    without, pulled = (
        synthesise(FedCog(**FAST, lambda_bn=weight), local, teacher, None) for weight in (0.0, 10.0)
    )
    assert distance(pulled) < distance(without)
    assert not any(module._forward_pre_hooks for module in teacher.modules())
