"""The gradient of a perceptron by its weights, and the derivatives of this gradient, by hand.

At this size, autograd's bookkeeping and the copies that it makes of all weights take nearly as long
as the products.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fedmirage.common.models.base import Model
from fedmirage.server.methods.dynafed.student import Student, cut

Layers = list[tuple[Tensor, Tensor]]  # (outputs, inputs) and (outputs,) of every layer


class PerceptronStudent(Student):
    """Linear layers with ReLU between them; both derivatives are written out below."""

    def gradient(
        self, weights: Tensor, images: Tensor, labels: Tensor, create_graph: bool
    ) -> Tensor:
        """As for any network; the graph has one node for the whole network."""
        targets = F.softmax(labels, dim=1)
        with torch.set_grad_enabled(create_graph):
            return PerceptronGradient.apply(weights, images.flatten(1), targets, self.shapes)  # type: ignore[no-any-return,no-untyped-call]


class PerceptronGradient(torch.autograd.Function):
    """The gradient of a perceptron's loss by its weights, and the derivatives of this gradient.

    With inputs h_0 and layers z_k = h_{k-1} W_k^T + b_k, h_k = relu(z_k), the errors d_k = dl/dz_k
    are d_n = (softmax(z_n) - q) / numel and d_{k-1} = (d_k W_k) where h_{k-1} > 0. The gradient is
    d_k^T h_{k-1} for W_k and the sum of d_k over the batch for b_k.
    """

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, inputs: Tensor, targets: Tensor, shapes: dict[str, torch.Size]
    ) -> Tensor:
        """Pass through the layers and back."""
        layers = cut_layers(weights, shapes)
        values = [inputs]  # h_0, h_1, ..., and the probabilities at the end
        for weight, bias in layers[:-1]:
            values.append(torch.addmm(bias, values[-1], weight.T).relu_())
        values.append(F.softmax(F.linear(values[-1], *layers[-1]), dim=1))
        gradient = torch.empty_like(weights)
        errors = [(values[-1] - targets).div_(targets.numel())]  # d_n, ..., d_1
        for place, (by_weight, by_bias) in reversed(list(enumerate(cut_layers(gradient, shapes)))):
            torch.mm(errors[-1].T, values[place], out=by_weight)
            torch.sum(errors[-1], dim=0, out=by_bias)
            if place:
                errors.append(pass_relu(errors[-1] @ layers[place][0], values[place]))
        ctx.shapes = shapes
        ctx.save_for_backward(weights, *values, *reversed(errors))
        return gradient

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor | None, ...]:
        """Differentiate <direction, gradient>: upwards through the errors, then down the layers."""
        weights, *saved = ctx.saved_tensors
        layers, directions = (cut_layers(flat, ctx.shapes) for flat in (weights, direction))
        values, errors = saved[: len(layers) + 1], saved[len(layers) + 1 :]
        by_weights = torch.empty_like(weights)
        results = cut_layers(by_weights, ctx.shapes)
        # The derivative by d_k, for k = 1, ..., n.
        change = torch.addmm(directions[0][1], values[0], directions[0][0].T)
        for place in range(1, len(layers)):
            change = pass_relu(change, values[place])
            torch.mm(errors[place].T, change, out=results[place][0])
            (weight, _), (by_weight, by_bias) = layers[place], directions[place]
            change = torch.addmm(by_bias, change, weight.T).addmm_(values[place], by_weight.T)
        change = change / change.numel()
        by_targets = -change
        # The derivative by z_k, for k = n, ..., 1.
        change = values[-1] * (change - (change * values[-1]).sum(dim=1, keepdim=True))
        for place in reversed(range(len(layers))):
            result, by_bias = results[place]
            if place:
                result.addmm_(change.T, values[place])
            else:
                torch.mm(change.T, values[place], out=result)
            torch.sum(change, dim=0, out=by_bias)
            change = (change @ layers[place][0]).addmm_(errors[place], directions[place][0])
            if place:
                change = pass_relu(change, values[place])
        return by_weights, change, by_targets, None


def pass_relu(gradient: Tensor, values: Tensor) -> Tensor:
    """Set the gradient to zero where ReLU's value is zero."""
    return torch.ops.aten.threshold_backward(gradient, values, 0)  # type: ignore[no-any-return]


def cut_layers(weights: Tensor, shapes: dict[str, torch.Size]) -> Layers:
    """View a flat vector as the weight and the bias of every linear layer."""
    parts = cut(weights, list(shapes.values()))
    return list(zip(parts[::2], parts[1::2], strict=True))


def is_perceptron(model: nn.Module, classes: int) -> bool:
    """Whether it is one of our networks, and has nothing but linear layers with ReLU between them.

    The order of the layers of another module is not known.
    """
    if type(model) is not Model:
        return False
    first, *layers = [layer for layer in model.modules() if not list(layer.children())]
    kinds = [nn.ReLU if place % 2 else nn.Linear for place in range(len(layers))]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    return (
        isinstance(first, nn.Flatten)
        and [type(layer) for layer in layers] == kinds
        and all(layer.bias is not None for layer in linear)
        and layers[-1] is linear[-1]
        and linear[-1].out_features == classes
    )
