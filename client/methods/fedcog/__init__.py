"""FedCOG on the client, the only half it has."""

from fedmirage.client.methods.fedcog.client import FedCogClient

__all__ = ["FedCogClient"]
