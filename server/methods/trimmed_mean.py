"""Trimmed mean on the server, its only half. Declared in common/methods/trimmed_mean.py."""

import numpy as np
from flwr.common import ndarrays_to_parameters

from fedmirage.common.methods.median import Median
from fedmirage.common.methods.trimmed_mean import TrimmedMean
from fedmirage.common.wire.payload import Array
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.wrapper import StrategyWrapper, read_models


class TrimmedMeanServer(StrategyWrapper[TrimmedMean | Median]):
    """Puts the trimmed mean in place of the inner average, from which it takes the metrics."""

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Trim `shared`; if nobody is to be left out, the inner average stays, bit for bit."""
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        models = [arrays for _, examples, arrays in read_models(results) if examples > 0]
        if aggregated is None:
            return None, metrics
        cut = self.params.cut(len(models))
        if cut:
            trimmed = [trimmed_mean(values, cut) for values in zip(*models, strict=True)]
            aggregated = ndarrays_to_parameters(trimmed)
        return aggregated, {**metrics, f"{self.params.name}.cut": cut}


def trimmed_mean(values: tuple[Array, ...], cut: int) -> Array:
    """The mean over the clients, coordinate by coordinate, without `cut` values on each side.

    The sum is in double precision, from the smallest value to the largest.
    """
    kept = np.sort(np.stack(values), axis=0)[cut : len(values) - cut]
    mean: Array = kept.mean(axis=0, dtype=np.float64).astype(kept.dtype)
    return mean
