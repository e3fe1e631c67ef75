"""The gradient of a ConvNet by its weights, and the derivatives of this gradient, by hand.

The second derivative in a direction is the tangent of the pass through the network and back: every
value is accompanied by its derivative in that direction. An image does not depend on the others, so
that some images at a time pass through the whole network, while their maps are in the cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from common.models.base import Model
from server.methods.dynafed.convolution import KERNEL, Block, Inputs, Patches, Pooled, Size
from server.methods.dynafed.stage import WINDOW, Memory, Norm, Stage
from server.methods.dynafed.student import Student, cut

CHUNK = 75  # images that pass through the network together on a CPU


class ConvNetStudent(Student):
    """Blocks of 3 x 3 convolution, norm, ReLU and average pooling, and one linear layer."""

    def __init__(self, model: nn.Module, classes: int) -> None:
        super().__init__(model, classes)
        layers = [layer for layer in self.model.modules() if not list(layer.children())]
        norms = [
            Norm(layer.num_groups, layer.eps) if isinstance(layer, nn.GroupNorm) else Norm(None, 0)
            for layer in layers[1:-2:4]
        ]
        self.form = Form(list(self.shapes.values()), norms, int(layers[0].padding[0]))  # type: ignore[index]

    def gradient(
        self, weights: Tensor, images: Tensor, labels: Tensor, create_graph: bool
    ) -> Tensor:
        """As for any network; the graph has one node for the whole network."""
        if not self.form.divides(images):
            return super().gradient(weights, images, labels, create_graph)
        targets = F.softmax(labels, dim=1)
        with torch.set_grad_enabled(create_graph):
            return ConvNetGradient.apply(weights, images, targets, self.form)  # type: ignore[no-any-return,no-untyped-call]


@dataclass(frozen=True)
class Weights:
    """All weights, or a direction of them, or the gradient by them."""

    blocks: list[Block]
    weight: Tensor  # (classes, features) of the linear layer
    bias: Tensor


@dataclass(frozen=True)
class Form:
    """What does not change while a network is trained."""

    shapes: list[torch.Size]
    norms: list[Norm]
    padding: int  # of the images
    memories: list[Memory] = field(init=False)  # one for every block

    def __post_init__(self) -> None:
        object.__setattr__(self, "memories", [Memory() for _ in self.norms])

    def sizes(self, images: Tensor) -> list[Size]:
        """The height and width of the inputs of every block, and finally of the features."""
        height, width = (side + 2 * self.padding + 1 - KERNEL for side in images.shape[2:])
        deeper = [(height >> place, width >> place) for place in range(1, len(self.norms) + 1)]
        return [(height, width), *deeper]

    def divides(self, images: Tensor) -> bool:
        """Whether no pooling leaves a row or a column over."""
        return all(side % 2 == 0 for size in self.sizes(images)[:-1] for side in size)

    def cut(self, flat: Tensor, scale: float = 0.0) -> Weights:
        """View the parts of a flat vector; without a norm, its scale is this one."""
        parts, blocks = iter(cut(flat, self.shapes)), []
        for norm in self.norms:
            weight, bias = next(parts), next(parts)
            if norm.groups is None:
                block = Block(weight, bias, torch.full_like(bias, scale), torch.zeros_like(bias))
            else:
                block = Block(weight, bias, next(parts), next(parts))
            blocks.append(block)
        return Weights(blocks, *parts)


class ConvNetGradient(torch.autograd.Function):
    """The gradient as one node of autograd's graph."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, images: Tensor, targets: Tensor, form: Form) -> Tensor:
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


class Pass:
    """Some images on their way through the network and back.

    First come `forward` and `backward`, or `repeat` with what they kept; then the tangents.
    """

    def __init__(self, form: Form, weights: Weights, images: Tensor) -> None:
        self.form, self.weights, self.images = form, weights, images
        self.sizes = form.sizes(images)
        self.inputs: list[Inputs] = []
        self.stages: list[Stage] = []

    def climb(self) -> Iterator[tuple[Inputs, Block, Norm]]:
        """Go up the blocks; the stage of each must be made before the next one."""
        for place, (block, norm) in enumerate(
            zip(self.weights.blocks, self.form.norms, strict=True)
        ):
            memory = self.form.memories[place]
            self.inputs.append(
                Pooled(self.stages[-1].outputs, self.sizes[place], memory)
                if place
                else Patches(self.images, self.form.padding, memory)
            )
            yield self.inputs[-1], block, norm

    def add_stage(self, norm: Norm, block: Block, centred: Tensor, inverse: Tensor) -> None:
        """Continue with norm, ReLU and pooling."""
        memory = self.form.memories[len(self.stages)]
        self.stages.append(
            Stage(norm, block.scale / WINDOW, block.shift / WINDOW, centred, inverse, memory)
        )

    def classify(self) -> Tensor:
        """(images, classes): the probabilities."""
        self.features = flatten(self.stages[-1].outputs)
        return F.softmax(F.linear(self.features, self.weights.weight, self.weights.bias), dim=1)

    def forward(self) -> tuple[Tensor, list[Tensor]]:
        """Return the probabilities, and what `repeat` needs."""
        kept = []
        for inputs, block, norm in self.climb():
            maps = inputs.convolve(block)
            mean, inverse = norm.center(maps)
            kept += [maps if self.stages else mean, inverse]
            self.add_stage(norm, block, maps, inverse)
        return self.classify(), kept

    def backward(self, errors: Tensor, results: Weights) -> list[Tensor]:
        """Add to the gradient, given the errors of the logits; return what `repeat` needs."""
        results.weight.addmm_(errors.T, self.features)
        results.bias.add_(errors.sum(dim=0))
        error, kept = self.unflatten(errors @ self.weights.weight), []
        for inputs, stage, block, result in self.descend(results):
            kept.append(error)
            stage.receive(error)
            error, by_weight, by_bias = inputs.backward(stage.backward(), block)
            accumulate(result, Block(by_weight, by_bias, stage.by_scale, stage.by_shift))
        return kept

    def repeat(self, kept: Iterator[Tensor]) -> Tensor:
        """Do what `forward` and `backward` did, without most of the products."""
        for inputs, block, norm in self.climb():
            map_or_mean, inverse = next(kept), next(kept)
            # The first convolution takes so little time that its large map is not kept.
            maps = map_or_mean if self.stages else inputs.convolve(block).sub_(map_or_mean)
            self.add_stage(norm, block, maps, inverse)
        for stage in reversed(self.stages):
            stage.receive(next(kept))
        return self.classify()

    def tangent_forward(self, directions: Weights) -> Tensor:
        """The tangent of the logits."""
        self.changes: list[Tensor | None] = [None]  # of the inputs of every block
        for inputs, stage, block, direction in zip(
            self.inputs, self.stages, self.weights.blocks, directions.blocks, strict=True
        ):
            change = inputs.tangent_forward(self.changes[-1], block, direction)
            result = stage.tangent_forward(
                change, direction.scale / WINDOW, direction.shift / WINDOW
            )
            self.changes.append(result)
        self.feature_change = flatten(result)
        logits = F.linear(self.features, directions.weight, directions.bias)
        return logits.addmm_(self.feature_change, self.weights.weight.T)

    def tangent_backward(
        self, errors: Tensor, change: Tensor, directions: Weights, results: Weights
    ) -> Tensor:
        """Add to the tangent of the gradient, given errors and their tangent; derive by the images.

        The derivative of <direction, gradient> by the images is the tangent of the error of them.
        """
        results.weight.addmm_(change.T, self.features).addmm_(errors.T, self.feature_change)
        results.bias.add_(change.sum(dim=0))
        change = self.unflatten((change @ self.weights.weight).addmm_(errors, directions.weight))
        for (inputs, stage, block, result), direction in zip(
            self.descend(results), reversed(directions.blocks), strict=True
        ):
            self.changes.pop()
            error_change, by_scale, by_shift = stage.tangent_backward(change)
            both = stage.backward(), error_change
            change, by_weight, by_bias = inputs.tangent_backward(
                both, self.changes[-1], block, direction
            )
            accumulate(result, Block(by_weight, by_bias, by_scale, by_shift))
        return change

    def descend(self, results: Weights) -> Iterator[tuple[Inputs, Stage, Block, Block]]:
        """Go down the blocks, each with its part of the result."""
        for place in reversed(range(len(self.stages))):
            block, result = self.weights.blocks[place], results.blocks[place]
            yield self.inputs[place], self.stages[place], block, result

    def unflatten(self, features: Tensor) -> Tensor:
        """The reverse of `flatten`."""
        images, places, channels = self.stages[-1].active.shape
        return features.view(images, channels, places).transpose(1, 2).contiguous()


def flatten(pooled: Tensor) -> Tensor:
    """(images, places, channels) to (images, features), in the order of the linear layer."""
    return pooled.transpose(1, 2).flatten(1)


def accumulate(result: Block, block: Block) -> None:
    """Add to the result of a block; those of the norm are rows, by a quarter of its weights."""
    result.weight.add_(block.weight)
    result.bias.add_(block.bias)
    result.scale.add_(block.scale.sum(dim=(0, 1)), alpha=1 / WINDOW)
    result.shift.add_(block.shift.sum(dim=(0, 1)), alpha=1 / WINDOW)


def is_convnet(model: nn.Module, classes: int) -> bool:
    """Whether it is one of our networks, and has the layers of a ConvNet without BatchNorm.

    The order of the layers of another module is not known.
    """
    if type(model) is not Model:
        return False
    layers = [layer for layer in model.modules() if not list(layer.children())]
    linear, blocks = (
        layers[-1],
        [layers[place : place + 4] for place in range(0, len(layers) - 2, 4)],
    )
    return (
        all(is_block(block, first=place == 0) for place, block in enumerate(blocks))
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
