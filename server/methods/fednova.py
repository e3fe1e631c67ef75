"""FedNova on the server: turns updates per step back into models that can be averaged.

Declared in common/methods/fednova.py.
"""

from dataclasses import replace

from flwr.common import FitRes

from fedmirage.common.methods.fednova import EFFECTIVE_STEPS, FedNova
from fedmirage.common.wire.payload import LAYOUT, SHARED, put, take
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.rule import ServerRule
from fedmirage.server.strategy.wrapper import mean_section


class FedNovaServer(ServerRule[FedNova]):
    """Turns every reply into w + (sum_j p_j a_j) d_i before the inner strategy averages.

    By linearity, the average is FedNova's. The inner strategy then sees models, as under FedAvg. A
    secure sum, which delivers the mean of all d_i as if every client had sent it, gives the same
    result.
    """

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """w + (sum_i p_i a_i) sum_i p_i d_i."""
        rest, mean = mean_section(results, EFFECTIVE_STEPS, self.context.weighting)
        effective = float(mean[0][0]) if mean else 0.0  # tau_eff in the paper
        models = [(proxy, self.restore(result, effective)) for proxy, result in rest]
        aggregated, metrics = self.inner.aggregate_fit(server_round, models, failures)
        return aggregated, {**metrics, "fednova.effective_steps": effective}

    def restore(self, result: FitRes, effective: float) -> FitRes:
        """Return the reply with w + effective d_i in place of d_i."""
        arrays, parameters, layout = take(result.parameters, str(result.metrics[LAYOUT]), SHARED)
        for position, entry in enumerate(self.context.describe(arrays)):
            if entry.trainable:
                arrays[position] = self.broadcast[position] + effective * arrays[position]
        parameters, layout = put(parameters, layout, SHARED, arrays)
        return replace(result, parameters=parameters, metrics={**result.metrics, LAYOUT: layout})
