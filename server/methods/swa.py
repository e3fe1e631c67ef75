"""SWA on the server: the last global models. Declared in common/methods/swa.py."""

from dataclasses import dataclass, field

import numpy as np

from fedmirage.common.methods.swa import Swa
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.methods._release import Release
from fedmirage.server.strategy.average import weighted_mean


@dataclass
class SwaState:
    """What outlives a round."""

    window: list[Arrays] = field(default_factory=list)  # the last `length` global models
    total: Arrays = field(default_factory=list)  # without a length: the sum of all, in doubles
    entered: int = 0  # how many models there were


class SwaServer(Release[Swa]):
    """A mean over a window, or over all rounds since the start."""

    state: SwaState
    state_type = SwaState

    def collect(self, model: Arrays) -> None:
        """Keep the last models, or only their sum where all of them count."""
        self.state.entered += 1
        if self.params.length is not None:
            self.state.window = [*self.state.window, model][-self.params.length :]
            return
        before = self.state.total or [np.zeros(array.shape) for array in model]
        self.state.total = [sum_ + array for sum_, array in zip(before, model, strict=True)]

    def average(self, model: Arrays) -> Arrays:
        """Divide by the number of models; the mean of one has its bits."""
        types = [array.dtype for array in model]
        if self.params.length is None:
            return weighted_mean([self.state.total], [1 / self.state.entered], types)
        count = len(self.state.window)
        return weighted_mean(self.state.window, [1 / count] * count, types)
