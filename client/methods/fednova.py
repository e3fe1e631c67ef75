"""FedNova on the client: the update per step, and the effective number of steps.

Declared in common/methods/fednova.py.
"""

import numpy as np

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.methods.fednova import EFFECTIVE_STEPS, FedNova
from fedmirage.common.wire.payload import Array, Sections


class FedNovaClient(Objective[FedNova]):
    """Trains as FedAvg does; what it sends in place of its weights is d_i."""

    def end(self, local: LocalRound) -> Sections:
        """Send a_i, which is 0 for a client that could not train (its weight is 0 as well)."""
        return {EFFECTIVE_STEPS: [np.array([effective_steps(local.steps, local.config.momentum)])]}

    def share(self, local: LocalRound, shared: dict[str, Array]) -> dict[str, Array]:
        """Send d_i = (w_i - w) / a_i for trainable weights, and running statistics as they are."""
        steps = effective_steps(local.steps, local.config.momentum) or 1.0
        sent = {name: value.cpu().numpy() for name, value in local.shared_reference().items()}
        return {
            name: (array - sent[name]) / steps if name in sent else array
            for name, array in shared.items()
        }
