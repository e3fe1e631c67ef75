"""FedNova, client half: the update for one step, and how many steps it was worth."""

import numpy as np

from client.objective import Objective
from client.round import LocalRound
from common.learning.steps import effective_steps
from common.methods.fednova import EFFECTIVE_STEPS, FedNova
from common.wire.payload import Array, Sections


class FedNovaClient(Objective[FedNova]):
    """Trains as FedAvg does; what it sends in place of its weights is d_i."""

    def end(self, local: LocalRound) -> Sections:
        """a_i, 0 for a client that could not train (which weighs nothing)."""
        return {EFFECTIVE_STEPS: [np.array([effective_steps(local.steps, local.config.momentum)])]}

    def share(self, local: LocalRound, shared: dict[str, Array]) -> dict[str, Array]:
        """d_i = (w_i - w) / a_i of the trainable weights; running statistics stay as they are."""
        steps = effective_steps(local.steps, local.config.momentum) or 1.0
        sent = {name: value.cpu().numpy() for name, value in local.shared_reference().items()}
        return {
            name: (array - sent[name]) / steps if name in sent else array
            for name, array in shared.items()
        }
