"""FedCOG's teacher and partner side by side, as one network of frozen weights.

Every image of the generation goes through both, and only images receive gradients. Joined layers
are fewer and larger products, and one product gives the sum of both gradients of the images.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.models.base import Model, chain

Networks = Callable[[Tensor], Sequence[Tensor]]  # images to the logits of each network


def side_by_side(models: Sequence[Model]) -> Networks:
    """Join networks of one form, layer by layer, if all their layers are of a known kind.

    Other networks run one after the other, and so do all on a GPU, whose kernels for the single
    networks are good.
    """
    layers = [layer for layer in models[0].modules() if not list(layer.children())]
    known = all(isinstance(layer, (*JOINED, *WITHOUT_WEIGHTS)) for layer in layers)
    on_cpu = all(weight.is_cpu for weight in models[0].parameters())
    return SideBySide(models) if known and on_cpu else one_by_one(models)


def one_by_one(models: Sequence[Model]) -> Networks:
    """Run the networks as they are."""
    return lambda images: [model(images) for model in models]


class SideBySide(nn.Module):
    """Networks whose maps and features stand next to each other, along the channels."""

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.count = len(models)
        self.features = join([model.features for model in models])
        self.classifier = join([model.classifier for model in models])

    def forward(self, images: Tensor) -> Sequence[Tensor]:
        """(batch, channels, height, width) to the (batch, classes) of each network."""
        logits: Tensor = self.classifier(self.features(images))
        return logits.chunk(self.count, dim=1)


def join(layers: Sequence[nn.Module]) -> nn.Module:
    """Make one layer of those that stand at the same place of every network."""
    first = layers[0]
    if isinstance(first, nn.Sequential):
        parts = [dict(layer.named_children()) for layer in layers]
        return chain(**{name: join([part[name] for part in parts]) for name in parts[0]})
    for kind, make in JOINED.items():
        if isinstance(first, kind):
            return make(layers)
    return first


class JoinedConvolution(nn.Module):
    """Convolutions of one form. The first ones see the same images, the others their own maps."""

    def __init__(self, layers: Sequence[nn.Conv2d]) -> None:
        super().__init__()
        self.form, self.count = layers[0], len(layers)
        self.weight, self.bias = join_weights(layers)
        self.rows: Tensor | None = None  # made once the width of the images is known

    def forward(self, maps: Tensor) -> Tensor:
        """(batch, channels, height, width) to (batch, networks x channels, height, width)."""
        form, shared = self.form, maps.shape[1] == self.form.in_channels
        if shared and has_row_form(form):
            padding = cast("tuple[int, int]", form.padding)
            if self.rows is None:
                self.rows = row_kernel(self.weight, maps.shape[3], padding[1])
            return ConvolutionByRows.apply(maps, self.weight, self.bias, self.rows, padding)  # type: ignore[no-any-return,no-untyped-call]
        groups = form.groups * (1 if shared else self.count)
        return F.conv2d(
            maps, self.weight, self.bias, form.stride, form.padding, form.dilation, groups
        )


class JoinedLinear(nn.Module):
    """Linear layers of one form. The first ones see the same images, the others their features."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.layers, self.inputs = list(layers), layers[0].in_features
        self.weight, self.bias = join_weights(layers)

    def forward(self, features: Tensor) -> Tensor:
        """(batch, features) to (batch, networks x outputs)."""
        if features.shape[1] == self.inputs:
            return F.linear(features, self.weight, self.bias)
        parts = torch.split(features, self.inputs, dim=1)
        outputs = [layer(part) for layer, part in zip(self.layers, parts, strict=True)]
        return torch.cat(outputs, dim=1)


def join_norms(layers: Sequence[nn.Module]) -> nn.Module:
    """Make one norm over the channels of all networks; BatchNorm uses its running statistics."""
    first, count = layers[0], len(layers)
    wider: nn.Module
    if isinstance(first, nn.GroupNorm):
        wider = nn.GroupNorm(count * first.num_groups, count * first.num_channels, first.eps)
    else:
        assert isinstance(first, nn.BatchNorm2d)
        wider = nn.BatchNorm2d(count * first.num_features, first.eps)
    states = [layer.state_dict() for layer in layers]
    wider.load_state_dict(
        {
            name: torch.cat([state[name] for state in states]) if value.ndim else value
            for name, value in states[0].items()
        }
    )
    return wider.eval().requires_grad_(False)


def join_weights(
    layers: Sequence[nn.Conv2d] | Sequence[nn.Linear],
) -> tuple[Tensor, Tensor | None]:
    """Stack the outputs of all layers: those of the first network come first."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    weight = torch.cat([layer.weight for layer in layers])
    return weight, torch.cat(biases) if biases else None


JOINED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    nn.Conv2d: JoinedConvolution,
    nn.Linear: JoinedLinear,
    nn.BatchNorm2d: join_norms,
    nn.GroupNorm: join_norms,
}
WITHOUT_WEIGHTS = (nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.Flatten, nn.Identity)


def has_row_form(form: nn.Conv2d) -> bool:
    """Whether `ConvolutionByRows` computes this layer's gradient of the images, and is faster.

    Processors compute many channels at a time, so that the usual kernels are slow on grey images:
    nearly all of their result is padding.
    """
    plain = form.stride == (1, 1) and form.dilation == (1, 1)
    return form.in_channels == 1 and plain and form.padding[0] < form.kernel_size[0]  # type: ignore[operator]


class ConvolutionByRows(torch.autograd.Function):
    """A convolution of grey images, whose gradient treats a row of pixels as so many channels.

    A row of the images' gradient is linear in a few rows of the output's gradient. Along a column
    this is again a convolution, with a kernel one pixel wide and with as many channels as a row has
    values. It multiplies by many zeros, and is still more than twice as fast. In channels_last no
    value moves in memory.
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        rows: Tensor,
        padding: tuple[int, int],
    ) -> Tensor:
        """Convolve as usual."""
        ctx.rows, ctx.padding = rows, (weight.shape[2] - 1 - padding[0], 0)
        return F.conv2d(images, weight, bias, padding=padding)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the images; weights are frozen."""
        rows = gradient.permute(0, 2, 3, 1).flatten(2)  # (batch, height, output width x channels)
        columns = rows.permute(0, 2, 1).unsqueeze(3)
        found = F.conv2d(columns, ctx.rows, padding=ctx.padding)  # (batch, width, height, 1)
        return found.permute(0, 3, 2, 1), None, None, None, None


def row_kernel(weight: Tensor, width: int, padding: int) -> Tensor:
    """(width, output width x channels, kernel height, 1): from rows of gradients to one of pixels.

    Pixel x got the gradient of output i through column x + padding - i of the kernel.
    """
    channels, _, height, size = weight.shape
    outputs = width + 2 * padding - size + 1
    pixels, positions = torch.arange(width), torch.arange(outputs)
    column = pixels[None, :] + padding - positions[:, None]  # (outputs, width)
    through = column[:, :, None] == torch.arange(size)  # (outputs, width, size)
    kernel = torch.einsum("ixk,chk->xich", through.to(weight), weight[:, 0].flip(1))
    kernel = kernel.reshape(width, outputs * channels, height, 1)
    return kernel.contiguous(memory_format=torch.channels_last)
