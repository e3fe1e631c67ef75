"""Data: sources, partitions, and the view that one client has.

`load` returns the data set that a `dataset` line describes. Importing this package loads neither
torch nor any reader of files.
"""

from common.data.catalogue.params import DATASETS, DatasetParams
from common.data.files.checks import describe
from common.data.loading import list_available, load
from common.data.set import DataSet, Split, Task

__all__ = [
    "DATASETS",
    "DataSet",
    "DatasetParams",
    "Split",
    "Task",
    "describe",
    "list_available",
    "load",
]
