"""FedCG on the client."""

from fedmirage.client.methods.fedcg.client import FedCgClient

__all__ = ["FedCgClient"]
