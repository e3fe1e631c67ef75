"""The networks that the `model` line may name; no torch here, because the command line reads it."""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from fedmirage.common.errors import collect
from fedmirage.common.own_code import find
from fedmirage.common.settings.language import Params, parse, resolve_one, write

Width = Annotated[int, Field(ge=1, le=4096)]


class ModelParams(Params):
    """One network; `fedmirage models` prints its docstring."""


class SimpleCnn(ModelParams):
    """Two 5x5 convolutions (6, 16), then layers of 120 and 84: FedCOG's and MOON's small CNN."""

    name: ClassVar[str] = "simple-cnn"


class Cnn3(ModelParams):
    """Three 3x3 convolutions (16, 32, 64), then a layer of 128: FedCOG's network for CIFAR-100."""

    name: ClassVar[str] = "cnn3"


class LenetBn(ModelParams):
    """Two strided convolutions with batch norm, then two linear layers: FedMD-CG's network."""

    name: ClassVar[str] = "lenet-bn"
    norm: ClassVar[str] = "batch"
    hidden: Width = 64
    """Width of the classifier's first linear layer; FedMD-CG uses 64 for Fashion-MNIST, and 128 for
    CIFAR-10 and EMNIST."""


class ConvNet(ModelParams):
    """Blocks of 3x3 convolution, norm, ReLU and average pooling: DynaFed's and FedLGD's network."""

    name: ClassVar[str] = "convnet"
    width: Width = 128
    """Channels per block; 32 is about ten times as fast as the papers' 128."""
    depth: Annotated[int, Field(ge=1, le=8)] = 3
    """Number of blocks; each halves the side of the image."""
    norm: Literal["instance", "group", "batch", "none"] = "instance"
    """"instance" is the papers' GroupNorm with one channel per group; "group" has up to 32 groups;
    "batch" keeps running statistics."""


class Mlp(ModelParams):
    """Linear layers with ReLU between them: DynaFed's second network for Fashion-MNIST."""

    name: ClassVar[str] = "mlp"
    hidden: Width = 128
    """Width of every hidden layer."""
    layers: Annotated[int, Field(ge=1, le=8)] = 2
    """Number of hidden layers."""


class Cnn1d(ModelParams):
    """Blocks of a 1-d convolution of 5 steps, ReLU and pooling, then a layer: for signals of the
    shape (channels, length)."""

    name: ClassVar[str] = "cnn1d"
    width: Width = 16
    """Channels of the first block; every further one has twice as many."""
    depth: Annotated[int, Field(ge=1, le=6)] = 2
    """Number of blocks; each halves the length."""
    hidden: Width = 64
    """Width of the layer behind the blocks."""


class VhlCnn(ModelParams):
    """Two padded 5x5 convolutions (32, 64), then a layer of 512: the small network of VHL."""

    name: ClassVar[str] = "vhl-cnn"


class DlgCnn(ModelParams):
    """Three 5x5 convolutions (12) with sigmoids, then a linear layer, and weights from -0.5 to 0.5:
    the network that the attack DLG rebuilds images from, for `fedmirage audit`."""

    name: ClassVar[str] = "dlg-cnn"


class ResNetParams(ModelParams):
    """The keys that all residual networks have."""

    stem: Literal["small", "imagenet"] = "small"
    """The first layers: "small" is a 3x3 convolution at full resolution, for images of up to 64
    pixels; "imagenet" is a 7x7 convolution with stride 2, then a pool."""
    norm: Literal["batch", "group", "instance"] = "batch"
    """"batch" is the published network; "group" (32 groups) and "instance" keep no running
    statistics."""


class ResNet10(ResNetParams):
    """torchvision's residual network with one basic block per stage, as in VHL."""

    name: ClassVar[str] = "resnet10"


class ResNet18(ResNetParams):
    """torchvision's ResNet-18: two basic blocks per stage."""

    name: ClassVar[str] = "resnet18"


class ResNet34(ResNetParams):
    """torchvision's ResNet-34: 3, 4, 6 and 3 basic blocks."""

    name: ClassVar[str] = "resnet34"


class ResNet50(ResNetParams):
    """torchvision's ResNet-50: 3, 4, 6 and 3 bottleneck blocks, 2,048 features."""

    name: ClassVar[str] = "resnet50"


SMALL: tuple[type[ModelParams], ...] = (
    *(SimpleCnn, Cnn3, LenetBn, ConvNet, Mlp, Cnn1d, VhlCnn),
    DlgCnn,
)
RESIDUAL: tuple[type[ModelParams], ...] = (ResNet10, ResNet18, ResNet34, ResNet50)
MODELS = {params.name: params for params in SMALL + RESIDUAL}


class OwnNetwork(ModelParams):
    """Somebody's own network: every key but `head` is for the class or function that makes it."""

    model_config = ConfigDict(extra="allow")
    norm: ClassVar[str] = "unknown"
    head: str = ""
    """Where to cut: the name of the last layer, e.g. "fc"; what goes into it are the features.
    Empty means "classifier"."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        """Travel to another process of a run as the line, because the class is made from it."""
        return read_model, (write(self),)


@lru_cache(maxsize=64)
def own_network(reference: str) -> type[OwnNetwork]:
    """The keys of one network; lines that name it are equal if their keys are."""
    return type("OwnNetworkOf", (OwnNetwork,), {"name": reference, "__module__": __name__})


def read_model(text: str) -> ModelParams:
    """Read a `model` line: one of the networks here, or somebody's own; nothing is imported."""
    known: dict[str, type[ModelParams]] = dict(MODELS)
    own = [call.name for call in parse(text, "model") if ":" in call.name]
    known.update((name, own_network(name)) for name in own)
    return resolve_one(text, known, "model")


def explain_missing(text: str) -> list[str]:
    """Say why the code of somebody's own network cannot be imported.

    The network is tried once data and settings are right; this is for sentences beside theirs.
    """
    problems: list[str] = []
    with collect(problems):
        if isinstance(params := read_model(text), OwnNetwork):
            find(params.name, "model")
    return problems
