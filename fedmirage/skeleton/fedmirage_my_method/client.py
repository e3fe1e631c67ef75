"""My method on the client: the term, and the label counts."""

import torch
from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.wire.payload import Sections

from . import COUNTS, PRIOR, MyMethod


class MyMethodClient(Objective[MyMethod]):
    """Holds p(y) for the length of a round."""

    prior: Tensor  # (classes,)

    def begin(self, local: LocalRound) -> None:
        """Read p(y) from the message."""
        (prior,) = local.received[PRIOR]
        self.prior = torch.tensor(prior, dtype=torch.float32, device=local.device)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """strength * KL(p || q), q the mean softmax over the real classes."""
        if not self.params.strength:
            return {}
        predicted = step.logits[:, : step.local.classes].softmax(1).mean(0)  # (classes,)
        gap = self.prior * (self.prior.clamp_min(1e-8).log() - predicted.clamp_min(1e-8).log())
        return {"my-method": self.params.strength * gap.sum()}

    def end(self, local: LocalRound) -> Sections:
        """Send how many samples this client has of each class."""
        return {COUNTS: [local.data.class_counts.astype("float64")]}
