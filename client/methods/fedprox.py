"""FedProx on the client: the proximal term. Declared in common/methods/fedprox.py."""

from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import Step
from fedmirage.common.learning.losses import squared_distance
from fedmirage.common.methods.fedprox import FedProx


class FedProxClient(Objective[FedProx]):
    """Pulls every trainable weight back to its value at the start of the round."""

    def terms(self, step: Step) -> dict[str, Tensor]:
        """(mu/2) ||w_i - w||^2 (eq. 2): the norm is squared, and summed over all tensors."""
        distance = squared_distance(step.local.trainable(), list(step.local.reference.values()))
        return {"proximal": self.params.mu / 2 * distance}
