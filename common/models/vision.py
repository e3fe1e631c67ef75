"""Imports torchvision, with a CUDA build of torch and with a CPU-only one.

The torchvision wheel of the package index contains operators compiled against CUDA libraries. With
a CPU-only torch they do not load, and the import fails with "operator torchvision::nms does not
exist". Models, transforms and data sets need only the schemas of these operators. The first call
takes a second or two, so only code that needs torchvision calls it.
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
    """The torchvision package, imported on first use."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if MISSING_OPERATOR not in str(error):
            raise
    # This must wait for that failure: an intact torchvision defines the schemas itself, and a
    # second definition would clash.
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", SCHEMA)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return importlib.import_module("torchvision")
