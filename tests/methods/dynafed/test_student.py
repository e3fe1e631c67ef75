"""The student's gradient is that of the loss, and derivatives by hand are those of autograd."""

import pytest
import torch
from torch import Tensor, nn

from fedmirage.common.learning.losses import soft_cross_entropy
from fedmirage.common.models.base import Model, chain
from fedmirage.common.models.factory import build
from fedmirage.server.methods.dynafed.by_hand import convnet, gradient_by_hand
from fedmirage.server.methods.dynafed.student import Student

CLASSES = 3
Shape = tuple[int, int, int]
GREY: Shape = (1, 4, 4)


def operands(
    network: nn.Module, shape: Shape = GREY, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Weights, images and labels, each of which requires a gradient.

    The weights are moved, so that no scale is one and no shift is zero.
    """
    generator = torch.Generator().manual_seed(1)
    weights = torch.cat([weight.detach().flatten() for weight in network.parameters()])
    weights += 0.1 * torch.randn(weights.shape, generator=generator)
    random = [torch.randn(size, generator=generator) for size in ((5, *shape), (5, CLASSES))]
    return [tensor.to(dtype).requires_grad_() for tensor in (weights, *random)]


@pytest.mark.parametrize(
    "model", ["mlp(hidden=6)", "mlp(hidden=6, layers=1)", "convnet(width=3, depth=1)"]
)
def test_the_gradient_is_that_of_the_cross_entropy(model: str) -> None:
    network = build(model, GREY, CLASSES).double()
    student, (weights, images, labels) = Student(network, CLASSES), operands(network)
    loss = soft_cross_entropy(student(weights, images), labels)
    (expected,) = torch.autograd.grad(loss, weights)
    for create_graph in (True, False):
        found = student.gradient(weights, images, labels, create_graph)
        assert found.requires_grad is create_graph
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-15)


def differentiate(student: Student, inputs: list[Tensor]) -> list[Tensor]:
    """The gradient, and its derivatives in one direction by weights, images and labels."""
    generator = torch.Generator().manual_seed(2)
    direction = torch.randn(inputs[0].shape, generator=generator).to(inputs[0])
    gradient = student.gradient(*inputs, create_graph=True)
    return [gradient.detach(), *torch.autograd.grad(gradient, inputs, direction)]


def assert_same(network: nn.Module, inputs: list[Tensor], tolerance: float) -> None:
    """Compare the student of this network with autograd, relative to the largest value."""
    by_hand = differentiate(Student(network, CLASSES), inputs)
    by_autograd = differentiate(Student(network, CLASSES, by_hand=False), inputs)
    for found, expected in zip(by_hand, by_autograd, strict=True):
        assert found.shape == expected.shape
        assert expected.abs().sum() > 0
        assert (found - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("norm", ["instance", "group", "none"])
@pytest.mark.parametrize(
    ("shape", "width", "depth"),
    [((1, 4, 4), 1, 1), ((1, 4, 12), 5, 3), ((3, 8, 8), 6, 2), ((3, 16, 8), 64, 3)],
)
def test_a_convnets_second_derivatives_are_those_of_autograd(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, width: int, depth: int, norm: str
) -> None:
    """Five images pass through the network in three parts, the last of which is smaller."""
    monkeypatch.setattr(convnet, "CHUNK", 2)
    network = build(f"convnet(width={width}, depth={depth}, norm='{norm}')", shape, CLASSES)
    assert gradient_by_hand(network, CLASSES) is not None
    assert_same(network.double(), operands(network, shape), 1e-12)
    # In single precision, a value near zero may lie on the other side of ReLU, but here none does.
    assert_same(network.float(), operands(network, shape, torch.float32), 2e-5)


def test_another_pass_in_between_changes_nothing() -> None:
    """A student uses the same memory in every pass."""
    network = build("convnet(width=4, depth=2)", (1, 8, 8), CLASSES).double()
    student, inputs = Student(network, CLASSES), operands(network, (1, 8, 8))
    gradient = student.gradient(*inputs, True)
    other = student.gradient(-2 * inputs[0], *inputs[1:], True)
    torch.autograd.grad(other.sum(), inputs)
    found = torch.autograd.grad(gradient.sum(), inputs)
    autograd = Student(network, CLASSES, by_hand=False).gradient(*inputs, True)
    expected = torch.autograd.grad(autograd.sum(), inputs)
    assert all(map(torch.allclose, found, expected))


def test_images_that_pooling_does_not_divide_are_left_to_autograd() -> None:
    """Seven pixels become three, and the norm sees all seven."""
    network = build("convnet(width=4, depth=2)", (3, 14, 14), CLASSES).double()
    gradient, inputs = gradient_by_hand(network, CLASSES), operands(network, (3, 14, 14))
    assert gradient is not None
    assert gradient(*inputs) is None
    assert_same(network, inputs, 0)


def test_only_known_forms_are_differentiated_by_hand() -> None:
    features = chain(flatten=nn.Flatten(), linear=nn.Linear(16, 4), activation=nn.ReLU())
    without_bias = Model(features, nn.Linear(4, CLASSES, bias=False), 4)
    other_activation = Model(
        chain(flatten=nn.Flatten(), linear=nn.Linear(16, 4), activation=nn.Tanh()),
        nn.Linear(4, CLASSES),
        4,
    )
    without_pool = Model(  # three layers before the last two, and not a multiple of four
        chain(conv=nn.Conv2d(1, 2, 3), norm=nn.Identity(), activation=nn.ReLU(), flat=nn.Flatten()),
        nn.Linear(8, CLASSES),
        8,
    )
    strided = build("convnet(width=2, depth=1)", GREY, CLASSES)
    strided.features.stage1.conv.stride = (2, 2)  # type: ignore[union-attr]
    for network in (
        without_bias,
        other_activation,
        without_pool,
        strided,
        build("mlp", GREY, CLASSES),
        build("convnet(width=2, depth=1)", GREY, CLASSES, extra_outputs=2),
        build("convnet(width=2, depth=1, norm='batch')", GREY, CLASSES),
        build("simple-cnn", (1, 28, 28), CLASSES),
        build("lenet-bn", (1, 28, 28), CLASSES),
        nn.Sequential(*features, nn.Linear(4, CLASSES)),
    ):
        assert gradient_by_hand(network, CLASSES) is None
