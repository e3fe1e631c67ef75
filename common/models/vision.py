"""The one door to torchvision, which opens beside a CUDA and beside a CPU torch.

The torchvision wheel of the package index carries operators compiled against CUDA libraries. Beside
a CPU-only torch they do not load, and the import stops at "operator torchvision::nms does not
exist". Models, transforms and data sets need none of these operators, only their schemas. A call
costs a second or two the first time, so only what needs torchvision calls it.
"""

import importlib
import sys
from functools import cache
from types import ModuleType

import torch

MISSING_OPERATOR = "operator torchvision::nms does not exist"
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@cache
def torchvision() -> ModuleType:
    """The torchvision package, imported when it is first asked for."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if MISSING_OPERATOR not in str(error):
            raise
    # Only after that failure: a healthy torchvision defines the schemas itself, and a second
    # definition would clash.
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", SCHEMA)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return importlib.import_module("torchvision")
