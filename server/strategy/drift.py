"""How far the clients' models of a round lie apart, for --diagnostics."""

import math

import numpy as np
from flwr.common import parameters_to_ndarrays

from fedmirage.common.methods.fedavg import FedAvg
from fedmirage.common.wire.metrics import DRIFT
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import (
    Aggregated,
    Failures,
    Results,
    in_partition_order,
    shared_only,
    shares_of,
)
from fedmirage.server.strategy.wrapper import StrategyWrapper


class Drift(StrategyWrapper[FedAvg]):
    """Wraps the average directly, and so sees exactly what is averaged.

    With FedNova, these are the normalised models. Distances are Euclidean, over the trainable
    weights that are shared. They need the reply of every client; under secure aggregation, where
    the server sees only the mean, there is no drift to report.
    """

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Pass the average on, and add one metric."""
        aggregated, metrics = super().aggregate_fit(server_round, results, failures)
        ordered = in_partition_order(results)
        weights = shares_of([result.num_examples for _, result in ordered], self.context.weighting)
        if aggregated is None or weights is None or not aggregated.tensors:
            return aggregated, metrics
        average = parameters_to_ndarrays(aggregated)
        distances = (self.distance(shared_only(result), average) for _, result in ordered)
        drift = sum(p * d for p, d in zip(weights, distances, strict=True))
        return aggregated, {**metrics, DRIFT: drift}

    def distance(self, model: Arrays, average: Arrays) -> float:
        """Measure the distance between two models, in double precision."""
        manifest = self.context.describe(average)
        ours, theirs = (manifest.weights.pick(arrays, manifest) for arrays in (model, average))
        pairs = zip(ours, theirs, strict=True)
        return math.sqrt(sum(float(np.square(a - b, dtype=np.float64).sum()) for a, b in pairs))
