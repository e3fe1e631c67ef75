"""The networks, each `features` then `classifier`: `MODELS` lists them, `build` makes one.

`Model` and `build` are imported on first use, so that a process that only reads a configuration
does not import torch.
"""

from typing import TYPE_CHECKING, Any

from fedmirage.common.models.params import MODELS, ModelParams

if TYPE_CHECKING:
    from fedmirage.common.models.base import Model
    from fedmirage.common.models.factory import build

__all__ = ["MODELS", "Model", "ModelParams", "build"]


def __getattr__(name: str) -> Any:
    if name == "Model":
        from fedmirage.common.models.base import Model

        return Model
    if name == "build":
        from fedmirage.common.models.factory import build

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
