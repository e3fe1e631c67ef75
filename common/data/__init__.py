"""Data: sources, partitions, and the view that one client has.

`load` returns the data set that a `dataset` line describes. Importing this package loads neither
torch nor numpy nor any reader of files: what needs them is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedmirage.common.data.catalogue.params import DATASETS, DatasetParams

if TYPE_CHECKING:
    from fedmirage.common.data.files.checks import describe_set
    from fedmirage.common.data.loading import list_available, load
    from fedmirage.common.data.set import DataSet, Split, Task

__all__ = [
    "DATASETS",
    "DataSet",
    "DatasetParams",
    "Split",
    "Task",
    "describe_set",
    "list_available",
    "load",
]
HOMES = {
    "DataSet": "set",
    "Split": "set",
    "Task": "set",
    "describe_set": "files.checks",
    "list_available": "loading",
    "load": "loading",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
