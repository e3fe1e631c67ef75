"""FedCG on the client."""

from client.methods.fedcg.client import FedCgClient

__all__ = ["FedCgClient"]
