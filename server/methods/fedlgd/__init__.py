"""FedLGD on the server. Declared in common/methods/fedlgd."""

from fedmirage.server.methods.fedlgd.server import FedLgdServer

__all__ = ["FedLgdServer"]
