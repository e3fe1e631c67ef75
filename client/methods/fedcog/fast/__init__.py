"""FedCOG's two frozen networks as one, with convolutions that are fast on images.

Nothing of FedCOG is in here. `loss.py` calls `side_by_side`, and fast=False does not.
"""

from fedmirage.client.methods.fedcog.fast.networks import side_by_side

__all__ = ["side_by_side"]
