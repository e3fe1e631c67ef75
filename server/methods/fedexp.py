"""FedExP on the server: the extrapolated step. Declared in common/methods/fedexp.py."""

import numpy as np

from fedmirage.common.methods.fedexp import SQUARED_NORM, FedExP
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.rule import ServerRule, plus
from fedmirage.server.strategy.wrapper import mean_section


class FedExPServer(ServerRule[FedExP]):
    """w + step D, written as average + (step - 1) D.

    With a step of 1, what remains is FedAvg, bit for bit.
    """

    squared_norm: float = 0.0  # sum_i p_i ||D_i||^2 of this round
    length: float = 1.0  # the step of this round, eta_g in the paper

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Average the squared norms with the weights of the models, then make the step."""
        rest, norms = mean_section(results, SQUARED_NORM, self.context.weighting)
        self.squared_norm = float(norms[0][0]) if norms else 0.0
        aggregated, metrics = super().aggregate_fit(server_round, rest, failures)
        step = {} if aggregated is None else {"fedexp.step": self.length}
        return aggregated, {**metrics, **step}

    def step(self, broadcast: Arrays, average: Arrays) -> Arrays:
        """step = max(1, sum_i p_i ||D_i||^2 / (2 (||D||^2 + eps)))."""
        update = [mean - sent for mean, sent in zip(average, broadcast, strict=True)]  # D
        norm = sum(float(np.square(array, dtype=np.float64).sum()) for array in update)
        self.length = max(1.0, self.squared_norm / (2 * (norm + self.params.eps)))
        return [
            plus(mean, (self.length - 1) * new) for mean, new in zip(average, update, strict=True)
        ]
