"""MOON on the client: the contrast between two reference models.

Declared in common/methods/moon.py.
"""

import torch
from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.learning.losses import contrast
from fedmirage.common.memory import LOCAL_MODEL
from fedmirage.common.methods.moon import Moon
from fedmirage.common.models.base import Model, frozen
from fedmirage.common.wire.manifest import from_arrays


class MoonClient(Objective[Moon]):
    """Holds the received and the previous model for the length of a round."""

    received: Model  # w
    previous: Model  # w_i of the last round that this client took part in; w on a first visit

    def begin(self, local: LocalRound) -> None:
        """Freeze both references before training moves the model."""
        self.received = self.previous = frozen(local.model)
        remembered = local.memory.get(LOCAL_MODEL)
        if remembered is not None:
            self.previous = frozen(local.model)
            from_arrays(self.previous, remembered)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """mu * l_con, on the penultimate features of the real batch."""
        with torch.no_grad():
            towards = self.received.features(step.images)  # (batch, features)
            away = (
                towards if self.previous is self.received else self.previous.features(step.images)
            )
        apart = contrast(step.features, towards, away, self.params.temperature)
        return {"contrast": self.params.mu * apart}
