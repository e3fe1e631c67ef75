"""EMA on the server: the moving average. Declared in common/methods/ema.py."""

from dataclasses import dataclass, field

import numpy as np

from fedmirage.common.methods.ema import Ema
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.methods._release import Release
from fedmirage.server.strategy.average import weighted_mean


@dataclass
class EmaState:
    """What outlives a round."""

    mean: Arrays = field(default_factory=list)  # m, in doubles; empty before the first model
    entered: int = 0  # how many models there were


class EmaServer(Release[Ema]):
    """m <- decay m + (1 - decay) w."""

    state: EmaState
    state_type = EmaState

    def collect(self, model: Arrays) -> None:
        """Move the average towards the model; what does not count has no part in the sum."""
        decay = self.params.decay if self.state.entered else 0.0
        exact = [array.astype(np.float64) for array in model]
        pairs = [(decay, self.state.mean), (1 - decay, exact)]
        weights, models = zip(*[pair for pair in pairs if pair[0]], strict=True)
        self.state.mean = weighted_mean(models, list(weights), [np.dtype(np.float64)] * len(model))
        self.state.entered += 1

    def average(self, model: Arrays) -> Arrays:
        """Return m with the types of the model."""
        return [
            mean.astype(array.dtype) for mean, array in zip(self.state.mean, model, strict=True)
        ]
