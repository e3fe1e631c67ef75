"""Teacher and partner as one network: the same logits and gradients as one after the other."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fedmirage.client.methods.fedcog.fast import side_by_side
from fedmirage.client.methods.fedcog.fast.blocks import PART, BlockConvolution
from fedmirage.client.methods.fedcog.fast.networks import SideBySide, halves, has_block_form
from fedmirage.client.methods.fedcog.loss import CHUNK, GenerationLoss
from fedmirage.common.learning.task import TASKS
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import Model, frozen
from fedmirage.common.models.factory import build

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


def assert_same_loss(teacher: Model, partner: Model, images: Tensor, joined: bool) -> None:
    """Compare the loss and its gradient with those of the networks one after the other.

    They differ by at most 1e-5 of the largest value.
    """
    found, labels = [], torch.arange(len(images)) % 10
    for fast in (True, False):
        params = FedCog(fast=fast, lambda_dis=0.5)
        loss_of = GenerationLoss(params, teacher, partner, TASKS["single-label"], 10)
        assert isinstance(loss_of.networks, SideBySide) is (joined and fast)
        found.append([*loss_of.networks(images), *loss_of.differentiate(images, labels)])
    for ours, expected in zip(*found, strict=True):
        scale = float(expected.detach().abs().max())
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("image_format", FORMATS)
@pytest.mark.parametrize("name", JOINABLE)
def test_joined_networks_give_the_numbers_of_the_single_ones(
    name: str, image_format: torch.memory_format, channels: int
) -> None:
    images = draw(6, channels)[0].contiguous(memory_format=image_format)
    assert_same_loss(*pair(name, image_format, channels), images, joined=True)


def test_networks_with_other_layers_run_one_after_the_other() -> None:
    models = [frozen(build("resnet10", (3, 32, 32), 10, seed=seed)) for seed in (1, 2)]
    assert side_by_side(models) is None


class Residual(nn.Module):
    """A container that is not a sequence, of layers that are all known."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())

    def forward(self, maps: Tensor) -> Tensor:
        added: Tensor = maps + self.inner(maps)
        return added


class Doubled(nn.Sequential):
    """A sequence that is more than its parts."""

    def forward(self, maps: Tensor) -> Tensor:
        doubled: Tensor = 2 * super().forward(maps)
        return doubled


SHARED = nn.ReLU()  # a layer may stand at two places of a sequence


@pytest.mark.parametrize(
    ("layers", "joined"),
    [
        (lambda: [Residual()], False),
        (lambda: [Doubled(nn.Conv2d(4, 4, 1))], False),
        (lambda: [nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")], False),
        (lambda: [nn.GroupNorm(2, 4, affine=False)], False),
        (lambda: [nn.BatchNorm2d(4, track_running_stats=False)], False),
        (lambda: [SHARED, nn.Conv2d(4, 4, 1), SHARED], True),
    ],
    ids=["residual", "doubled", "circular", "not affine", "no statistics", "twice"],
)
def test_a_network_that_cannot_be_joined_runs_as_it_is(
    layers: Callable[[], list[nn.Module]], joined: bool
) -> None:
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *layers(), nn.Flatten())
        models.append(frozen(Model(features, nn.Linear(4 * 64, 10), 4 * 64)))
    images = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert_same_loss(models[0], models[1], images, joined)


@pytest.mark.parametrize("pool", [nn.Identity(), nn.MaxPool2d(2)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("size", "padding"), [(5, 0), (5, 2), (3, 1), (3, 4), (1, 0), (6, 1)])
@pytest.mark.parametrize("count", [3, 2 * PART + 1])
def test_a_convolution_by_blocks_is_the_usual_one(
    count: int, size: int, padding: int, channels: int, pool: nn.Module
) -> None:
    """A whole number in every place gives sums without rounding, so the two must be equal.

    The numbers are so many that no window has two largest ones, of which one gets the gradient.
    """
    generator = torch.Generator().manual_seed(1)
    layer = nn.Conv2d(channels, 4, size, padding=padding).requires_grad_(False)
    for weight in layer.parameters():
        weight.random_(-64, 64, generator=generator)
    drawn = torch.randint(-2048, 2048, (count, channels, 7, 10), generator=generator).float()
    assert has_block_form(layer)
    blocks = BlockConvolution(
        layer.weight, layer.bias, (padding, padding), isinstance(pool, nn.MaxPool2d)
    )
    found = []
    for convolution in (nn.Sequential(layer, pool), blocks):
        images = drawn.clone().requires_grad_()
        maps = convolution(images)
        slopes = torch.arange(maps.numel()).view_as(maps) % 5 + 0.0
        found.append((maps, *torch.autograd.grad(maps, images, slopes)))
    for ours, expected in zip(*found, strict=True):
        assert torch.equal(ours, expected)


def test_other_convolutions_have_no_block_form() -> None:
    assert not has_block_form(nn.Conv2d(1, 4, 3, stride=2))
    assert not has_block_form(nn.Conv2d(1, 4, 3, padding="same"))
    assert not has_block_form(nn.Conv2d(1, 4, 3, padding="valid"))
    assert not has_block_form(nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"))
    assert not has_block_form(nn.Conv2d(3, 3, 3, groups=3))
    assert not has_block_form(nn.Conv2d(6, 4, 3))


def test_only_pooling_of_2_x_2_values_is_joined_with_a_convolution() -> None:
    assert halves(nn.MaxPool2d(2))
    for other in (nn.MaxPool2d(3), nn.MaxPool2d(2, stride=1), nn.AvgPool2d(2), nn.Identity()):
        assert not halves(other)


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
