"""FedLGD on the client. Declared in common/methods/fedlgd."""

from client.methods.fedlgd.client import FedLgdClient

__all__ = ["FedLgdClient"]
