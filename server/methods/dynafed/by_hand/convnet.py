"""The gradient of a ConvNet by its weights, and the derivatives of this gradient, by hand.

An image does not depend on the others, so that some images at a time pass through the whole network
(network.py) and use the same memory as those before them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fedmirage.common.models.base import Model
from fedmirage.server.methods.dynafed.by_hand.convolution import KERNEL
from fedmirage.server.methods.dynafed.by_hand.network import NetworkForm, Pass
from fedmirage.server.methods.dynafed.by_hand.stage import Norm

# Weights, images and targets to the gradient, as one node of the graph; None if images do not fit.
Gradient = Callable[[Tensor, Tensor, Tensor], Tensor | None]
CHUNK = 75  # images that pass through the network together on a CPU


def gradient_by_hand(model: nn.Module, classes: int) -> Gradient | None:
    """Return the gradient of a ConvNet as a function; None if the network has another form.

    A ConvNet has blocks of 3 x 3 convolution, norm, ReLU and average pooling, and one linear layer.
    """
    if not is_convnet(model, classes):
        return None
    layers = [layer for layer in model.modules() if not list(layer.children())]
    norms = [
        Norm(layer.num_groups, layer.eps) if isinstance(layer, nn.GroupNorm) else Norm(None, 0)
        for layer in layers[1:-2:4]
    ]
    shapes = [weight.shape for weight in model.parameters()]
    form = NetworkForm(shapes, norms, int(layers[0].padding[0]))  # type: ignore[index]

    def gradient(weights: Tensor, images: Tensor, targets: Tensor) -> Tensor | None:
        if not form.divides(images):
            return None
        return ConvNetGradient.apply(weights, images, targets, form)  # type: ignore[no-any-return,no-untyped-call]

    return gradient


class ConvNetGradient(torch.autograd.Function):
    """The gradient as one node of autograd's graph."""

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, images: Tensor, targets: Tensor, form: NetworkForm
    ) -> Tensor:
        """Pass through the network and back; keep what would take long to compute again."""
        gradient = torch.zeros_like(weights)
        results, kept = form.cut(gradient), list[Tensor]()
        for part, wanted in split(images, targets):
            run = Pass(form, form.cut(weights, 1.0), part)
            probabilities, some = run.forward()
            errors = (probabilities - wanted).div_(targets.numel())
            kept += [*some, *run.backward(errors, results)]
        ctx.form = form
        ctx.save_for_backward(weights, images, targets, *kept)
        return gradient

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor | None, ...]:
        """Differentiate <direction, gradient>: compute the tangents of the same pass."""
        weights, images, targets, *saved = ctx.saved_tensors
        kept, directions = iter(saved), ctx.form.cut(direction)
        by_weights = torch.zeros_like(weights)
        results, by_images, by_targets = ctx.form.cut(by_weights), [], []
        for part, wanted in split(images, targets):
            run = Pass(ctx.form, ctx.form.cut(weights, 1.0), part)
            probabilities = run.repeat(kept)
            errors = (probabilities - wanted).div_(targets.numel())
            change = run.tangent_forward(directions).div_(targets.numel())
            by_targets.append(-change)
            change = probabilities * (change - (change * probabilities).sum(dim=1, keepdim=True))
            by_images.append(run.tangent_backward(errors, change, directions, results))
        return by_weights, torch.cat(by_images), torch.cat(by_targets), None


def split(images: Tensor, targets: Tensor) -> Sequence[tuple[Tensor, Tensor]]:
    """Some images at a time on a CPU; all of them on other devices."""
    size = CHUNK if images.device.type == "cpu" else len(images)
    return list(zip(torch.split(images, size), torch.split(targets, size), strict=True))


def is_convnet(model: nn.Module, classes: int) -> bool:
    """Whether it is one of our networks, and has the layers of a ConvNet without BatchNorm.

    The order of the layers of another module is not known.
    """
    if type(model) is not Model:
        return False
    layers = [layer for layer in model.modules() if not list(layer.children())]
    linear, blocks = layers[-1], [layers[at : at + 4] for at in range(0, len(layers) - 2, 4)]
    return (
        len(layers) % 4 == 2
        and all(is_block(block, first=place == 0) for place, block in enumerate(blocks))
        and type(layers[-2]) is nn.Flatten
        and isinstance(linear, nn.Linear)
        and linear.bias is not None
        and linear.out_features == classes
    )


def is_block(layers: Sequence[nn.Module], first: bool) -> bool:
    """Whether these layers are those of one block; the padding of the first may be any number."""
    convolution, norm, activation, pool = layers
    if not isinstance(convolution, nn.Conv2d):
        return False
    padding = convolution.padding[0] if first else 1
    expected = nn.Conv2d(convolution.in_channels, convolution.out_channels, KERNEL, padding=padding)
    return (
        repr(convolution) == repr(expected)
        and (isinstance(norm, nn.Identity) or (isinstance(norm, nn.GroupNorm) and norm.affine))
        and isinstance(activation, nn.ReLU)
        and repr(pool) == repr(nn.AvgPool2d(2))
    )
