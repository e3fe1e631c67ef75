"""Stand-in on the client: other data, and the hooks before and after a step."""

import torch
from fedmirage.common.methods.stand_in import StandIn

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.wire.payload import Sections


class StandInClient(Objective[StandIn]):
    """Counts the steps that it was told of."""

    before = after = 0

    def begin(self, local: LocalRound) -> None:
        """Train on the mean image of every class, as bytes."""
        images, labels = local.data.real.images.float(), local.data.real.labels
        classes = labels.unique()
        means = torch.stack([images[labels == label].mean(0) for label in classes])
        local.data.replace(means.round().to(torch.uint8), classes)

    def before_step(self, step: Step) -> None:
        """Count the step before the batch is used."""
        self.before += 1

    def after_step(self, step: Step) -> None:
        """Count the step after the optimiser has made it."""
        self.after += 1

    def end(self, local: LocalRound) -> Sections:
        """Nothing is sent beside the model."""
        local.report |= {"stand-in.before": self.before, "stand-in.after": self.after}
        return {}
