"""The small networks of the papers, with the sizes of their code.

The size of the layer after the convolutions follows from the image shape. Activations are never in
place, because DynaFed's synthesis differentiates twice. Where a paper has ReLU before max pooling,
pooling comes first here: values and gradients are the same bits, and ReLU has less to do.
"""

import math
from dataclasses import dataclass

from torch import nn

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models.base import Model, Shape, chain, norm_layer, require_size
from fedmirage.common.models.params import Cnn1d, ConvNet, DlgCnn, LenetBn, Mlp, ModelParams
from fedmirage.common.settings.language import write


@dataclass(frozen=True)
class PlainCnn:
    """Convolutions, each with a pool and ReLU, and behind them linear layers with ReLU."""

    least: int  # pixels of a side
    kernel: int
    padding: int
    widths: tuple[int, ...]  # of the convolutions
    hidden: tuple[int, ...]  # of the linear layers

    def __call__(self, params: ModelParams, shape: Shape, outputs: int) -> Model:
        """Build the network."""
        require_size(params, shape, self.least)
        size, *sides = shape
        layers: dict[str, nn.Module] = {}
        for index, width in enumerate(self.widths, start=1):
            layers[f"stage{index}"] = chain(
                conv=nn.Conv2d(size, width, self.kernel, padding=self.padding),
                pool=nn.MaxPool2d(2),
                activation=nn.ReLU(),
            )
            size = width
            sides = [(side + 2 * self.padding - self.kernel + 1) // 2 for side in sides]
        layers["flatten"] = nn.Flatten()
        size *= math.prod(sides)
        for index, width in enumerate(self.hidden, start=1):
            layers[f"hidden{index}"] = _linear(size, width)
            size = width
        return Model(chain(**layers), nn.Linear(size, outputs), feature_dim=size)


# FedCOG section 5.1, and its code.
simple_cnn = PlainCnn(least=16, kernel=5, padding=0, widths=(6, 16), hidden=(120, 84))
# FedCOG's network for CIFAR-100.
cnn3 = PlainCnn(least=22, kernel=3, padding=0, widths=(16, 32, 64), hidden=(128,))
# The network of two convolutions in VHL's code; at 28 pixels they give 3,136 values.
vhl_cnn = PlainCnn(least=4, kernel=5, padding=2, widths=(32, 64), hidden=(512,))


def lenet_bn(params: LenetBn, shape: Shape, outputs: int) -> Model:
    """FedMD-CG's code: the features are the convolutions' output, 128 values at 28 and 32 pixels.

    There is no activation between the two linear layers.
    """
    require_size(params, shape, 11)
    channels, height, width = shape
    features = chain(
        stage1=_strided_convolution(channels, 16),
        stage2=_strided_convolution(16, 32),
        flatten=nn.Flatten(),
    )
    feature_dim = 32 * _lenet_side(height) * _lenet_side(width)
    classifier = chain(
        hidden=nn.Linear(feature_dim, params.hidden), output=nn.Linear(params.hidden, outputs)
    )
    return Model(features, classifier, feature_dim)


def _lenet_side(side: int) -> int:
    for _ in range(2):
        side = (side + 1) // 2 // 2
    return side


def convnet(params: ConvNet, shape: Shape, outputs: int) -> Model:
    """DynaFed and FedLGD, section "Models" of both.

    A one-channel image is padded by 3, so that 28 pixels become 32.
    """
    padding = 3 if shape[0] == 1 else 1
    grown = 2 * (padding - 1)
    require_size(params, shape, max(1, 2**params.depth - grown))
    channels, height, width = shape
    blocks: dict[str, nn.Module] = {}
    for index in range(1, params.depth + 1):
        blocks[f"stage{index}"] = chain(
            conv=nn.Conv2d(channels, params.width, 3, padding=padding),
            norm=norm_layer(params.norm, params.width),
            activation=nn.ReLU(),
            pool=nn.AvgPool2d(2),
        )
        channels, padding = params.width, 1
    feature_dim = (
        params.width * ((height + grown) >> params.depth) * ((width + grown) >> params.depth)
    )
    return Model(
        chain(**blocks, flatten=nn.Flatten()), nn.Linear(feature_dim, outputs), feature_dim
    )


def mlp(params: Mlp, shape: Shape, outputs: int) -> Model:
    """DynaFed's 784-128-128-10 on Fashion-MNIST."""
    layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
    size = math.prod(shape)
    for index in range(1, params.layers + 1):
        layers[f"hidden{index}"] = _linear(size, params.hidden)
        size = params.hidden
    return Model(chain(**layers), nn.Linear(size, outputs), feature_dim=size)


def cnn1d(params: Cnn1d, shape: Shape, outputs: int) -> Model:
    """Refuse inputs that are no signals, or too short for the pools."""
    least = 2**params.depth
    if len(shape) != 2 or shape[1] < least:
        raise ConfigurationError(
            f"model={write(params)!r} needs signals of the shape channels x length, at least"
            f" {least} steps long, but the data set gives {'x'.join(map(str, shape))}; choose"
            " model='mlp' or a smaller depth"
        )
    channels, length = shape
    blocks: dict[str, nn.Module] = {}
    for index in range(1, params.depth + 1):
        width = params.width * 2 ** (index - 1)
        blocks[f"stage{index}"] = chain(
            conv=nn.Conv1d(channels, width, 5, padding=2),
            pool=nn.MaxPool1d(2),
            activation=nn.ReLU(),
        )
        channels, length = width, length // 2
    features = chain(
        **blocks, flatten=nn.Flatten(), hidden1=_linear(channels * length, params.hidden)
    )
    return Model(features, nn.Linear(params.hidden, outputs), feature_dim=params.hidden)


def dlg_cnn(params: DlgCnn, shape: Shape, outputs: int) -> Model:
    """The network of DLG's code (Zhu et al., 2019), smooth everywhere, with its initial weights."""
    require_size(params, shape, 4)
    channels, height, width = shape
    flat = 12 * -(-height // 4) * -(-width // 4)
    features = chain(
        stage1=_sigmoid_convolution(channels, stride=2),
        stage2=_sigmoid_convolution(12, stride=2),
        stage3=_sigmoid_convolution(12, stride=1),
        flatten=nn.Flatten(),
    )
    model = Model(features, nn.Linear(flat, outputs), feature_dim=flat)
    for weight in model.parameters():
        nn.init.uniform_(weight, -0.5, 0.5)
    return model


def _sigmoid_convolution(channels: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels, 12, 5, stride=stride, padding=2)
    return chain(conv=convolution, activation=nn.Sigmoid())


def _strided_convolution(channels: int, width: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels, width, 3, stride=2, padding=1)
    return chain(
        conv=convolution, norm=nn.BatchNorm2d(width), pool=nn.MaxPool2d(2), activation=nn.ReLU()
    )


def _linear(size: int, width: int) -> nn.Sequential:
    return chain(linear=nn.Linear(size, width), activation=nn.ReLU())
