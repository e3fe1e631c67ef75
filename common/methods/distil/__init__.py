"""Distil: the declaration, and the parameters that it shares with FedLGD."""

from fedmirage.common.methods.distil.declaration import Distil

__all__ = ["Distil"]
