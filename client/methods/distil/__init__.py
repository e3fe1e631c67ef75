"""Distil on the client, the only half it has.

FedLGD builds on `virtual_set` and `prepare_virtual_set` (client.py), and on
`match_distributions` (matching.py).
"""

from fedmirage.client.methods.distil.client import DistilClient

__all__ = ["DistilClient"]
