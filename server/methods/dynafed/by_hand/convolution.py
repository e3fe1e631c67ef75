"""The convolutions of a ConvNet in the layout of stage.py, with both derivatives.

`Patches` are the inputs of the first convolution, `Pooled` those of the others, which a stage gave.
Both have the same four operations. A tangent is marked by ', W is the weight, * the convolution:

    z = h * W + b                 the gradients are by_weight(h, dz) and by_input(W, dz)
    z' = h * W' + b' + h' * W     the tangents of the gradients are by_weight(h, dz') +
                                  by_weight(h', dz) and by_input(W, dz') + by_input(W', dz)
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.server.methods.dynafed.by_hand.stage import WINDOW, Buffers

KERNEL = 3
FIELD = KERNEL + 1  # the side of what a window of 2 x 2 pixels depends on

Size = tuple[int, int]  # height and width


@dataclass(frozen=True)
class Block:
    """The weights of one block, or a direction of them, or the gradient by them."""

    weight: Tensor  # W: (channels, inputs, 3, 3)
    bias: Tensor
    scale: Tensor  # of the norm
    shift: Tensor


Derivatives = tuple[Tensor, Tensor, Tensor]  # by the inputs, by the weight, by the bias


class Patches:
    """The 3 x 3 surroundings of every pixel of some images, as the columns of one matrix.

    While there are few channels, such a product takes at most half the time of torch's convolution.
    The last row of the matrix is one, for the bias.
    """

    def __init__(self, images: Tensor, padding: int, memory: Buffers) -> None:
        self.images, self.padding, self.memory = images, padding, memory
        padded = F.pad(images, (padding,) * 4)
        # What each window depends on: (channels, 4, 4, images, height / 2, width / 2)
        fields = (
            padded.unfold(2, FIELD, 2).unfold(3, FIELD, 2).permute(1, 4, 5, 0, 2, 3).contiguous()
        )
        # (channels, 3, 3, 2, 2, images, height / 2, width / 2)
        patches = fields.unfold(1, KERNEL, 1).unfold(2, KERNEL, 1).permute(0, 6, 7, 1, 2, 3, 4, 5)
        self.fields, self.shape = fields.shape, patches.shape
        rows = self.shape[0] * KERNEL**2
        self.matrix = memory.take("patches", (rows + 1, self.shape[3:].numel()), images)
        self.matrix[:-1].view(self.shape).copy_(patches)
        self.matrix[-1] = 1

    def convolve(self, block: Block) -> Tensor:
        """Compute the map z, which is only valid until the next pass."""
        return self.multiply(block, "centred")

    def multiply(self, block: Block, name: str) -> Tensor:
        """Convolve with some weights, into a map of this name."""
        joined = torch.cat([block.weight.flatten(1), block.bias[:, None]], dim=1)
        shape = (WINDOW, len(self.images), self.fields[4:].numel(), len(joined))
        maps = self.memory.take(name, shape, self.images)
        torch.mm(self.matrix.T, joined.T, out=maps.view(-1, len(joined)))
        return maps

    def backward(self, error: Tensor, block: Block) -> Derivatives:
        """Derive by the weights alone, given dz: nobody needs the rest."""
        product = self.matrix @ error.flatten(0, 2)  # (rows + 1, channels)
        return self.images, product[:-1].T.reshape(block.weight.shape), product[-1]

    def tangent_forward(self, change: Tensor | None, block: Block, direction: Block) -> Tensor:
        """Compute z'; images have no tangent h'."""
        return self.multiply(direction, "change")

    def tangent_backward(
        self, errors: tuple[Tensor, Tensor], change: Tensor | None, block: Block, direction: Block
    ) -> Derivatives:
        """Compute the tangents of the derivatives, given dz and dz'.

        The matrix is overwritten with its derivative, because nothing needs it any more.
        """
        error, error_change = (maps.flatten(0, 2).T for maps in errors)
        _, by_weight, by_bias = self.backward(errors[1], block)
        patches = self.matrix[:-1]
        torch.mm(block.weight.flatten(1).T, error_change, out=patches)
        patches.addmm_(direction.weight.flatten(1).T, error)
        return self.fold(patches.view(self.shape)), by_weight, by_bias

    def fold(self, patches: Tensor) -> Tensor:
        """Add the derivatives by all patches of which a pixel is part."""
        fields = patches.new_zeros(self.fields)
        for row in range(KERNEL):
            for column in range(KERNEL):
                fields[:, row : row + 2, column : column + 2].add_(patches[:, row, column])
        columns = fields.permute(3, 0, 1, 2, 4, 5).flatten(1, 3).flatten(2)
        size = self.images.shape[2:]
        return F.fold(columns, size, FIELD, padding=self.padding, stride=2)


class Pooled:
    """What a stage gave: (images, places, channels)."""

    def __init__(self, values: Tensor, size: Size, memory: Buffers) -> None:
        self.size, self.memory = size, memory
        self.pixels = self.to_pixels(values)

    def to_pixels(self, values: Tensor) -> Tensor:
        """View pooled values as (images, channels, height, width)."""
        return values.view(len(values), *self.size, -1).permute(0, 3, 1, 2)

    def convolve(self, block: Block) -> Tensor:
        """Compute a map that stays valid."""
        pixels = F.conv2d(self.pixels, block.weight, block.bias, padding=1)
        return split_windows(pixels).flatten(3, 4).flatten(0, 1)

    def tangent_forward(self, change: Tensor | None, block: Block, direction: Block) -> Tensor:
        """Two convolutions."""
        assert change is not None
        pixels = F.conv2d(self.pixels, direction.weight, direction.bias, padding=1)
        pixels += F.conv2d(self.to_pixels(change), block.weight, padding=1)
        windows = split_windows(pixels)
        shape = (WINDOW, windows.shape[2], windows.shape[3:5].numel(), windows.shape[5])
        maps = self.memory.take("change", shape, change)
        maps.view(windows.shape).copy_(windows)
        return maps

    def backward(self, error: Tensor, block: Block) -> Derivatives:
        """Derive by everything."""
        return self.differentiate(error, self.pixels, block.weight)

    def tangent_backward(
        self, errors: tuple[Tensor, Tensor], change: Tensor | None, block: Block, direction: Block
    ) -> Derivatives:
        """By the product rule."""
        assert change is not None
        by_input, by_weight, by_bias = self.backward(errors[1], block)
        other = self.differentiate(errors[0], self.to_pixels(change), direction.weight)
        return by_input.add_(other[0]), by_weight.add_(other[1]), by_bias

    def differentiate(self, error: Tensor, pixels: Tensor, weight: Tensor) -> Derivatives:
        """Call torch's kernel, for which all pixels are brought into their order."""
        (height, width), channels = self.size, len(weight)
        ordered = self.memory.take("pixels", (len(pixels), height, width, channels), error)
        error_pixels = ordered.permute(0, 3, 1, 2)
        windows = split_windows(error_pixels)
        windows.copy_(error.view(windows.shape))
        by_input, by_weight, by_bias = torch.ops.aten.convolution_backward(
            *(error_pixels, pixels, weight, [channels]),
            *([1, 1], [1, 1], [1, 1]),  # stride, padding, dilation
            *(False, [0, 0], 1),  # transposed, output padding, groups
            [True, True, True],  # the derivatives that are wanted
        )
        return by_input.permute(0, 2, 3, 1).flatten(1, 2), by_weight, by_bias


Inputs = Patches | Pooled  # what is convolved


def split_windows(pixels: Tensor) -> Tensor:
    """(images, channels, height, width) to (2, 2, images, height / 2, width / 2, channels)."""
    images, channels, height, width = pixels.shape
    windows = pixels.view(images, channels, height // 2, 2, width // 2, 2)
    return windows.permute(3, 5, 0, 2, 4, 1)
