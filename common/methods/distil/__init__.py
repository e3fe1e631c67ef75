"""Distil: the declaration, and the parameters that it shares with FedLGD."""

from common.methods.distil.declaration import Distil

__all__ = ["Distil"]
