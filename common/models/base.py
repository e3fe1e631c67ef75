"""The base of all networks: two halves, named stages, and common building blocks."""

import copy
import math
from collections import OrderedDict

from torch import Tensor, nn

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models.params import ModelParams
from fedmirage.common.settings.language import write

Shape = tuple[int, ...]  # of one input: channels, height, width of a picture
LAST = "last"


class Model(nn.Module):
    """A network in two halves: `features` (one flat vector per sample), `classifier` (logits).

    The classifier is the last linear layer, so that the features are the penultimate ones that
    FedCOG, MOON and VHL compare. The one exception is `lenet-bn`: FedMD-CG cuts between its
    convolutions and its two linear layers. Children of `features` whose names begin with "stage"
    are the stages, which give what VHL calls shallow, middle and deep features. Somebody's own
    network may have any module as its features; only a sequence has stages.
    """

    def __init__(self, features: nn.Module, classifier: nn.Module, feature_dim: int) -> None:
        super().__init__()
        self.features = features
        self.classifier = classifier
        self.feature_dim = feature_dim
        self.fixed: frozenset[str] = frozenset()  # the names of what `freeze` keeps as it is
        self.remarks: list[str] = []  # what readers of the run's results must know about it
        self.resting: tuple[nn.Module, ...] = ()  # the layers of which all is fixed

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) to (batch, classes)."""
        logits: Tensor = self.classifier(self.features(images))
        return logits

    def train(self, mode: bool = True) -> "Model":
        """Set the mode; layers that are fixed stay in evaluation mode, and so do their norms."""
        super().train(mode)
        for layer in self.resting:
            layer.eval()
        return self

    def original_name(self, name: str) -> str:
        """The name of a weight in the network as its author wrote it."""
        return name

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the intermediate feature maps, from shallow to deep."""
        if not isinstance(self.features, nn.Sequential):
            return ()
        return tuple(name for name, _ in self.features.named_children() if name.startswith("stage"))

    def feature_maps(self, images: Tensor) -> dict[str, Tensor]:
        """The map after every stage, and the features as "last", from one forward pass."""
        if not self.stages:
            return {LAST: self.features(images)}
        maps, value = {}, images
        for name, part in self.features.named_children():
            value = part(value)
            if name.startswith("stage"):
                maps[name] = value
        return maps | {LAST: value}


def frozen(model: Model) -> Model:
    """A copy in evaluation mode without gradients; BatchNorm does not change its statistics."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def chain(**parts: nn.Module) -> nn.Sequential:
    """A sequence with named parts, so that weights have names: `features.stage1.conv.weight`."""
    return nn.Sequential(OrderedDict(parts))


def norm_layer(kind: str, channels: int) -> nn.Module:
    """A norm over feature maps; instance norm is a GroupNorm with one channel per group.

    It is affine, and the same in training and in evaluation mode.
    """
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    if kind == "none":
        return nn.Identity()
    return nn.GroupNorm(channels if kind == "instance" else math.gcd(32, channels), channels)


def require_size(params: ModelParams, shape: Shape, smallest: int) -> None:
    """Refuse images that are so small that pooling would leave nothing of them."""
    if len(shape) != 3:
        raise ConfigurationError(
            f"model={write(params)!r} is for pictures, and the data set gives inputs of the shape"
            f" {'x'.join(map(str, shape))}; choose model='mlp'"
        )
    _, height, width = shape
    if min(height, width) < smallest:
        raise ConfigurationError(
            f"model={write(params)!r} needs images of at least {smallest}x{smallest} pixels,"
            f" but the data set gives {height}x{width}; ask it for larger ones"
            f" (dataset='...(size={max(28, smallest)})') or choose model='mlp'"
        )
