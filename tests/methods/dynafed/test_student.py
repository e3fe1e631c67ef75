"""The student's gradient is that of the loss, and the perceptron's derivatives are autograd's."""

import pytest
import torch
from torch import Tensor, nn

from common.learning.losses import soft_cross_entropy
from common.models import build
from common.models.base import Model, chain
from server.methods.dynafed.student import PerceptronStudent, Student, make_student

CLASSES = 3


def operands(network: nn.Module) -> list[Tensor]:
    """Weights, images and labels, in double precision, each of which requires a gradient."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.cat([weight.detach().flatten() for weight in network.parameters()])
    random = [torch.randn(shape, generator=generator) for shape in ((5, 1, 4, 4), (5, CLASSES))]
    return [tensor.double().requires_grad_() for tensor in (weights, *random)]


@pytest.mark.parametrize(
    "model", ["mlp(hidden=6)", "mlp(hidden=6, layers=1)", "convnet(width=3, depth=1)"]
)
def test_the_gradient_is_that_of_the_cross_entropy(model: str) -> None:
    network = build(model, (1, 4, 4), CLASSES).double()
    student, (weights, images, labels) = make_student(network, CLASSES), operands(network)
    loss = soft_cross_entropy(student(weights, images), labels)
    (expected,) = torch.autograd.grad(loss, weights)
    for create_graph in (True, False):
        found = student.gradient(weights, images, labels, create_graph)
        assert found.requires_grad is create_graph
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_perceptrons_second_derivatives_are_those_of_autograd(layers: int) -> None:
    network = build(f"mlp(hidden=6, layers={layers})", (1, 4, 4), CLASSES).double()
    inputs = operands(network)
    direction = torch.randn(inputs[0].shape, dtype=torch.float64)
    by_hand, by_autograd = (
        torch.autograd.grad(
            kind(network, CLASSES).gradient(*inputs, create_graph=True), inputs, direction
        )
        for kind in (PerceptronStudent, Student)
    )
    for found, expected in zip(by_hand, by_autograd, strict=True):
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-14)
        assert expected.abs().sum() > 0


def test_only_a_perceptron_is_differentiated_by_hand() -> None:
    assert isinstance(make_student(build("mlp", (1, 4, 4), CLASSES), CLASSES), PerceptronStudent)
    features = chain(flatten=nn.Flatten(), linear=nn.Linear(16, 4), activation=nn.ReLU())
    without_bias = Model(features, nn.Linear(4, CLASSES, bias=False), 4)
    other_activation = Model(
        chain(flatten=nn.Flatten(), linear=nn.Linear(16, 4), activation=nn.Tanh()),
        nn.Linear(4, CLASSES),
        4,
    )
    for network in (
        without_bias,
        other_activation,
        build("mlp", (1, 4, 4), CLASSES, extra_outputs=2),
        build("convnet(width=2, depth=1)", (1, 4, 4), CLASSES),
        nn.Sequential(*features, nn.Linear(4, CLASSES)),
    ):
        assert type(make_student(network, CLASSES)) is Student
