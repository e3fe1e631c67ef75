"""FedCOG's teacher and partner side by side, as one network of frozen weights.

Every image of the generation goes through both, and only images receive gradients. Joined layers
are fewer and larger products, and one product gives the sum of both gradients of the images.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedmirage.client.methods.fedcog.fast.blocks import BlockConvolution
from fedmirage.common.models.base import Model


def side_by_side(models: Sequence[Model]) -> "SideBySide | None":
    """Join networks of one form, layer by layer; None if some of their layers cannot be joined.

    The result is also None on a GPU, whose kernels for the single networks are good.
    """
    first = models[0]
    on_cpu = all(weight.is_cpu for weight in first.parameters())
    known = type(first) is Model and can_join(first.features) and can_join(first.classifier)
    return SideBySide(models) if known and on_cpu else None


def can_join(layer: nn.Module) -> bool:
    """Whether `join` knows what a layer computes; a container of another kind may do anything."""
    if type(layer) is nn.Sequential:
        return all(map(can_join, layer))
    if isinstance(layer, nn.Conv2d):
        return type(layer) is nn.Conv2d and layer.padding_mode == "zeros"
    if isinstance(layer, nn.BatchNorm2d | nn.GroupNorm):
        return layer.affine and getattr(layer, "track_running_stats", True)
    return type(layer) in (nn.Linear, *WITHOUT_WEIGHTS)


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
        joined = [join(parts) for parts in zip(*cast(Any, layers), strict=True)]
        for place, (layer, pool) in enumerate(pairwise(joined)):
            if isinstance(layer, JoinedConvolution) and halves(pool):
                layer.pool, joined[place + 1] = pool, nn.Identity()
        return nn.Sequential(*joined)
    make = JOINED.get(type(first))
    return first if make is None else make(layers)


class JoinedConvolution(nn.Module):
    """Convolutions of one form. The first ones see the same images, the others their own maps."""

    def __init__(self, layers: Sequence[nn.Conv2d]) -> None:
        super().__init__()
        self.form, self.count = layers[0], len(layers)
        self.weight, self.bias = join_weights(layers)
        self.pool: nn.Module = nn.Identity()  # or that of 2 x 2 values, if it follows directly
        self.blocks: BlockConvolution | None = None  # made once it is known that images come in

    def forward(self, maps: Tensor) -> Tensor:
        """(batch, channels, height, width) to (batch, networks x channels, height, width)."""
        form, shared = self.form, maps.shape[1] == self.form.in_channels
        if shared and has_block_form(form):
            if self.blocks is None:
                padding = cast("tuple[int, int]", form.padding)
                pooled = isinstance(self.pool, nn.MaxPool2d)
                self.blocks = BlockConvolution(self.weight, self.bias, padding, pooled)
            return self.blocks(maps)  # type: ignore[no-any-return]
        groups = form.groups * (1 if shared else self.count)
        maps = F.conv2d(
            maps, self.weight, self.bias, form.stride, form.padding, form.dilation, groups
        )
        return self.pool(maps)  # type: ignore[no-any-return]


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


def join_weights(layers: Sequence[nn.Conv2d] | Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
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


def halves(layer: nn.Module) -> bool:
    """Whether this is max pooling of every 2 x 2 values."""
    return repr(layer) == repr(nn.MaxPool2d(2))


def has_block_form(form: nn.Conv2d) -> bool:
    """Whether `BlockConvolution` computes this layer, and is faster: images have few channels."""
    plain = form.stride == (1, 1) and form.dilation == (1, 1) and form.padding_mode == "zeros"
    few = form.in_channels <= 3 and form.groups == 1
    return few and plain and not isinstance(form.padding, str)
