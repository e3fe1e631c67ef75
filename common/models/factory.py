"""Builds a network from the `model` line; its initial weights depend on the given seed alone."""

from collections.abc import Callable
from typing import Any

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models import small
from fedmirage.common.models.base import Model, Shape
from fedmirage.common.models.own import build_own
from fedmirage.common.models.params import ModelParams, OwnNetwork, read_model
from fedmirage.common.seeds import seed_torch


def build(
    line_or_params: str | ModelParams,
    shape: Shape,
    classes: int,
    extra_outputs: int = 0,
    seed: int = 0,
) -> Model:
    """Build a network for inputs of this shape, on the CPU and in training mode.

    `extra_outputs` widens the head beyond the classes. The weights of the features are drawn before
    those of the head, so that a wider head does not change the features.
    """
    params = (
        line_or_params if isinstance(line_or_params, ModelParams) else read_model(line_or_params)
    )
    if min(shape) < 1 or classes < 1 or extra_outputs < 0:
        raise ConfigurationError(
            f"model={params.name!r} cannot be built for shape={tuple(shape)}, classes={classes}"
            f" and extra_outputs={extra_outputs}; sizes and classes begin at 1, extra outputs"
            " at 0"
        )
    with seed_torch(seed):
        if isinstance(params, OwnNetwork):
            return build_own(params, shape, classes, extra_outputs)
        return _builder(params)(params, shape, classes + extra_outputs)


def _builder(params: ModelParams) -> Callable[[Any, Shape, int], Model]:
    if params.name.startswith("resnet"):
        # Importing torchvision takes a second, and only these networks need it.
        from fedmirage.common.models.resnet import resnet

        return resnet
    return SMALL[params.name]


SMALL: dict[str, Callable[[Any, Shape, int], Model]] = {
    "simple-cnn": small.simple_cnn,
    "cnn3": small.cnn3,
    "lenet-bn": small.lenet_bn,
    "convnet": small.convnet,
    "mlp": small.mlp,
    "cnn1d": small.cnn1d,
    "vhl-cnn": small.vhl_cnn,
    "dlg-cnn": small.dlg_cnn,
}
