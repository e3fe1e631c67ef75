"""The pass of some images through a ConvNet and back, and the tangents of both.

The second derivative in a direction is the tangent of the pass through the network and back: every
value is accompanied by its derivative in that direction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.server.methods.dynafed.by_hand.convolution import (
    KERNEL,
    Block,
    Inputs,
    Patches,
    Pooled,
    Size,
)
from fedmirage.server.methods.dynafed.by_hand.stage import WINDOW, Buffers, Norm, Stage
from fedmirage.server.methods.dynafed.trajectory import cut


@dataclass(frozen=True)
class Weights:
    """All weights, or a direction of them, or the gradient by them."""

    blocks: list[Block]
    weight: Tensor  # (classes, features) of the linear layer
    bias: Tensor


@dataclass(frozen=True)
class NetworkForm:
    """What does not change while a network is trained."""

    shapes: list[torch.Size]
    norms: list[Norm]
    padding: int  # of the images
    memories: list[Buffers] = field(init=False)  # one for every block

    def __post_init__(self) -> None:
        object.__setattr__(self, "memories", [Buffers() for _ in self.norms])

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


class Pass:
    """Some images on their way through the network and back.

    First come `forward` and `backward`, or `repeat` with what they kept; then the tangents.
    """

    def __init__(self, form: NetworkForm, weights: Weights, images: Tensor) -> None:
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
