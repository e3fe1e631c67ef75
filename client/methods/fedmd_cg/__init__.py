"""FedMD-CG on the client."""

from client.methods.fedmd_cg.client import FedMdCgClient

__all__ = ["FedMdCgClient"]
