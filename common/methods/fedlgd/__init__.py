"""FedLGD: the declaration, and how the global images travel."""

from fedmirage.common.methods.fedlgd.declaration import (
    GLOBAL,
    REMEMBERED_GLOBAL,
    REMEMBERED_LOCAL,
    FedLgd,
)

__all__ = ["GLOBAL", "REMEMBERED_GLOBAL", "REMEMBERED_LOCAL", "FedLgd"]
