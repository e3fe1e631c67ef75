"""FedMD-CG on the client."""

from fedmirage.client.methods.fedmd_cg.client import FedMdCgClient

__all__ = ["FedMdCgClient"]
