"""FedDecorr on the client: the decorrelation term. Declared in common/methods/feddecorr.py."""

from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import Step
from fedmirage.common.learning.losses import decorrelation
from fedmirage.common.methods.feddecorr import FedDecorr


class FedDecorrClient(Objective[FedDecorr]):
    """Decorrelates the penultimate features of the real batch."""

    def terms(self, step: Step) -> dict[str, Tensor]:
        """beta * L_FedDecorr."""
        return {"decorrelation": self.params.beta * decorrelation(step.features)}
