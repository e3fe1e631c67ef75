"""FedLGD on the client. Declared in common/methods/fedlgd."""

from fedmirage.client.methods.fedlgd.client import FedLgdClient

__all__ = ["FedLgdClient"]
