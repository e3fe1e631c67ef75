"""Teacher and partner as one network: the same logits and gradients as one after the other."""

import pytest
import torch
from torch import Tensor, nn

from client.methods.fedcog.loss import CHUNK, GenerationLoss
from client.methods.fedcog.networks import (
    JoinedConvolution,
    SideBySide,
    has_row_form,
    one_by_one,
    side_by_side,
)
from common.learning.task import TASKS
from common.methods.fedcog import FedCog
from common.models import Model, build
from common.models.base import frozen

JOINABLE = [
    "simple-cnn",
    "cnn3",
    "lenet-bn",
    "vhl-cnn",
    "mlp(hidden=8)",
    "convnet(width=4, depth=2, norm='batch')",
    "convnet(width=4, depth=2, norm='instance')",
]
FORMATS = [torch.contiguous_format, torch.channels_last]


def pair(name: str, image_format: torch.memory_format, channels: int = 1) -> list[Model]:
    """Two networks whose BatchNorm layers have different statistics."""
    models = []
    for seed in (1, 2):
        model = build(name, (channels, 28, 28), 10, seed=seed)
        with torch.no_grad():
            model(torch.randn(8, channels, 28, 28, generator=torch.Generator().manual_seed(seed)))
        models.append(frozen(model).to(memory_format=image_format))  # type: ignore[call-overload]
    return models


def draw(count: int, channels: int = 1) -> tuple[Tensor, Tensor]:
    images = torch.randn(count, channels, 28, 28, generator=torch.Generator().manual_seed(0))
    return images, torch.arange(count) % 10


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("image_format", FORMATS)
@pytest.mark.parametrize("name", JOINABLE)
def test_joined_networks_have_the_logits_and_gradients_of_the_single_ones(
    name: str, image_format: torch.memory_format, channels: int
) -> None:
    models = pair(name, image_format, channels)
    joined = side_by_side(models)
    assert isinstance(joined, SideBySide)
    found = []
    for networks in (joined, one_by_one(models)):
        images = draw(6, channels)[0].contiguous(memory_format=image_format).requires_grad_()
        teacher, partner = networks(images)
        mixed = (teacher * torch.arange(10)).sum() + (partner.square()).sum()
        found.append((teacher, partner, *torch.autograd.grad(mixed, images)))
    for ours, expected in zip(*found, strict=True):
        scale = float(expected.detach().abs().max())
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5 * scale)


def test_networks_with_other_layers_run_one_after_the_other() -> None:
    models = [frozen(build("resnet10", (3, 32, 32), 10, seed=seed)) for seed in (1, 2)]
    assert not isinstance(side_by_side(models), SideBySide)


@pytest.mark.parametrize(("size", "padding"), [(5, 0), (5, 2), (3, 1), (3, 2), (1, 0)])
def test_the_gradient_by_rows_is_the_convolution_s(size: int, padding: int) -> None:
    """A whole number in every place gives sums without rounding, so the two must be equal."""
    layer = nn.Conv2d(1, 4, size, padding=padding).requires_grad_(False)
    layer.weight.copy_(torch.randint(-4, 5, layer.weight.shape))
    assert has_row_form(layer)
    gradients = []
    for convolution in (layer, JoinedConvolution([layer])):
        images = torch.randint(-4, 5, (3, 1, 7, 9)).float().requires_grad_()
        maps = convolution(images)
        (gradient,) = torch.autograd.grad(
            maps, images, torch.arange(maps.numel()).view_as(maps) % 5 + 0.0
        )
        gradients.append(gradient)
    assert torch.equal(*gradients)


def test_padding_beyond_the_kernel_has_no_row_form() -> None:
    assert not has_row_form(nn.Conv2d(1, 4, 3, padding=3))
    assert not has_row_form(nn.Conv2d(1, 4, 3, stride=2))
    assert not has_row_form(nn.Conv2d(3, 4, 3))


@pytest.mark.parametrize(("disagreement", "calls"), [("paper", 3), ("code", 1)])
def test_a_loss_in_chunks_is_the_loss_of_all_images(disagreement: str, calls: int) -> None:
    """The clamped divergence is clamped as a mean over all images, which are then one chunk."""
    teacher, partner = pair("simple-cnn", torch.channels_last)
    images, labels = draw(2 * CHUNK + 3)
    params = FedCog(disagreement=disagreement, lambda_dis=0.5)  # type: ignore[arg-type]
    loss_of = GenerationLoss(params, teacher, partner, TASKS["single-label"], 10)
    assert len(list(loss_of.chunks(images, labels))) == calls
    leaf = images.clone().requires_grad_()
    expected = loss_of(leaf, labels)
    (slope,) = torch.autograd.grad(expected, leaf)
    loss, gradient = loss_of.differentiate(images, labels)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-5 * float(slope.abs().max()))
    torch.testing.assert_close(loss_of.evaluate(images, labels), expected.detach())
    assert all(weight.grad is None for weight in teacher.parameters())
