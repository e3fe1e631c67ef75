"""Partitions: which client holds which training samples.

`split` is a pure function of its arguments. Every part is an ascending array of positions in the
training split, no sample is in two parts, and no part is empty. All samples are used, except where
a partition says otherwise.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedmirage.common.data.partitions.params import PARTITIONS, PartitionParams

if TYPE_CHECKING:
    from fedmirage.common.data.partitions.checks import check, check_columns
    from fedmirage.common.data.partitions.counts import Indices
    from fedmirage.common.data.partitions.named import split

__all__ = ["PARTITIONS", "Indices", "PartitionParams", "check", "check_columns", "split"]
HOMES = {"check": "checks", "check_columns": "checks", "Indices": "counts", "split": "named"}


def __getattr__(name: str) -> Any:
    """Load what splits samples on first use, so that reading a configuration needs no numpy."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
