"""The first convolution of FedCOG's frozen networks, made fast for images of few channels.

Processors compute many channels at a time, so that the usual kernels are slow on images: nearly
all of the gradient that they compute is padding. Here several pixels stand for the channels.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SIDE = 4  # rows, and columns, that are taken together
PART = 64  # images that are convolved at a time: their maps mostly stay in the cache of a core


class BlockConvolution(nn.Module):
    """A convolution of stride 1 and, if `pooled`, the largest of every 2 x 2 outputs.

    Four rows of an image are taken as one row of four times as many channels. The gradient takes
    four columns together as well, which moves no value in memory: a block of 4 x 4 grey pixels
    fills a register of the processor. The products multiply by some zeros, and are still faster.
    Of equal outputs in a window, another one may get the gradient than in torch's pooling.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], pooled: bool
    ) -> None:
        super().__init__()
        self.size, self.padding, self.window = weight.shape[2:], padding, 2 if pooled else 1
        # Even rows of a block come first, so that the two rows of a window are whole halves.
        kernel = take_rows(weight, (0, 2, 1, 3) if pooled else (0, 1, 2, 3))
        blocks = take_rows(kernel.transpose(2, 3)).transpose(2, 3)
        backwards = blocks.transpose(0, 1).flip(2, 3)
        self.kernel = kernel.contiguous(memory_format=torch.channels_last)
        self.backwards = backwards.contiguous(memory_format=torch.channels_last)
        self.bias = None if bias is None else bias.repeat(SIDE)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) to the same of the maps."""
        sizes = zip(images.shape[2:], self.padding, self.size, strict=True)
        height, width = (length + 2 * padding - size + 1 for length, padding, size in sizes)
        pixels = self.fill_blocks(images, height, width).permute(0, 2, 3, 1)
        maps: Tensor = ConvolveRows.apply(  # type: ignore[no-untyped-call]
            pixels, self.kernel, self.bias, self.backwards, self.window
        )
        return maps[:, : height // self.window, : width // self.window].permute(0, 3, 1, 2)

    def fill_blocks(self, images: Tensor, height: int, width: int) -> Tensor:
        """Pad the images, and add or cut pixels at the end, to get whole blocks of outputs."""
        (top, left), (rows, columns) = self.padding, images.shape[2:]
        seen = SIDE * (-(-height // SIDE) + self.kernel.shape[2] - 1)
        across = SIDE * -(-width // SIDE) + self.size[1] - 1
        border = (left, across - left - columns, top, seen - top - rows)
        return F.pad(images, border) if any(border) else images


class ConvolveRows(torch.autograd.Function):
    """The products of `BlockConvolution` and its pooling, for a few images at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        pixels: Tensor,
        kernel: Tensor,
        bias: Tensor | None,
        backwards: Tensor,
        window: int,
    ) -> Tensor:
        """(batch, height, width, channels) to the same of the maps."""
        ctx.backwards, ctx.window, ctx.width, ctx.positions = backwards, window, pixels.shape[2], []
        found = []
        for part in torch.split(pixels, PART):
            maps = F.conv2d(group_rows(part, SIDE).permute(0, 3, 1, 2), kernel, bias)
            maps = maps.permute(0, 2, 3, 1)
            if window > 1:
                maps, positions = pool(maps)
                ctx.positions.append(positions)
            found.append(ungroup_rows(maps, SIDE // window))
        return torch.cat(found).flatten(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the images; weights are frozen."""
        channels, seen, *size = ctx.backwards.shape
        found = []
        for number, part in enumerate(torch.split(gradient, PART)):
            maps = group_rows(part, SIDE // ctx.window)
            down = maps.shape[1]
            if ctx.positions:
                maps = unpool(maps, ctx.positions[number])
            # (part, columns x rows x channels, blocks, blocks)
            blocks = maps.reshape(len(part), down, -1, seen).permute(0, 3, 1, 2)
            pixels = F.conv2d(blocks, ctx.backwards, padding=[length - 1 for length in size])
            down = pixels.shape[2]
            rows = pixels.permute(0, 2, 3, 1).reshape(len(part), down, -1, channels // SIDE)
            found.append(ungroup_rows(rows[:, :, : ctx.width], SIDE))
        return torch.cat(found).flatten(1, 2), None, None, None, None


def group_rows(maps: Tensor, rows: int) -> Tensor:
    """(batch, height, width, channels) to (batch, blocks, width, rows x channels)."""
    batch, _, width, channels = maps.shape
    return maps.reshape(batch, -1, rows, width, channels).transpose(2, 3).flatten(3)


def ungroup_rows(maps: Tensor, rows: int) -> Tensor:
    """(batch, blocks, width, rows x channels) to (batch, blocks, rows, width, channels), a view."""
    return maps.view(*maps.shape[:3], rows, -1).transpose(2, 3)


def pool(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Pool two columns and the halves of a row: (part, blocks, width, rows x channels) and places.

    A window is four vectors that follow each other in memory.
    """
    part, blocks, width, channels = maps.shape
    windows = maps.reshape(-1, 4, 1, channels // 2).permute(0, 3, 1, 2)
    pooled, positions = F.max_pool2d(windows, (4, 1), return_indices=True)
    return pooled.permute(0, 2, 3, 1).view(part, blocks, width // 2, channels // 2), positions


def unpool(gradient: Tensor, positions: Tensor) -> Tensor:
    """Put gradients at these positions of their windows, and zeros at the others.

    torch calls its `max_unpool2d` not deterministic, and refuses it in a run.
    """
    windows, channels = positions.shape[:2]
    pooled = gradient.reshape(windows, 1, 1, channels).permute(0, 3, 1, 2)
    maps = gradient.new_empty(windows, 4, 1, channels).permute(0, 3, 1, 2)  # only its shape counts
    found = torch.ops.aten.max_pool2d_with_indices_backward(
        pooled, maps, (4, 1), (4, 1), (0, 0), (1, 1), False, positions
    )
    return found.permute(0, 2, 3, 1)  # type: ignore[no-any-return]


def take_rows(weight: Tensor, order: Sequence[int] = range(SIDE)) -> Tensor:
    """Take rows together: (outputs, inputs, height, width) to (4 x outputs, 4 x inputs, ...).

    Output row r of a block sees the rows from r on of this block and the next ones.
    """
    outputs, inputs, height, width = weight.shape
    blocks = (height + 2) // SIDE + 1
    seen = weight.new_zeros(SIDE, outputs, inputs, blocks * SIDE, width)
    for place, row in enumerate(order):
        seen[place, :, :, row : row + height] = weight
    kernel = seen.view(SIDE * outputs, inputs, blocks, SIDE, width).permute(0, 3, 1, 2, 4)
    return kernel.reshape(SIDE * outputs, SIDE * inputs, blocks, width)
