"""What --diagnostics adds to the line of a round, under "diagnostics".

    drift                                       mean distance of the local models to their average,
                                                weighed as the average is
    local_model.on_test.NAME.accuracy           local models, right after training, on the whole
                                                test set
    local_model.on_own_labels.NAME.accuracy     the same, test samples weighted by the client's own
                                                label distribution
    samples                                     training samples processed so far by all clients,
                                                repeats counted

NAME says how clients weigh in the mean: by_examples, or by_clients (all alike, as tables of
personalised methods have it). The two accuracies are there in rounds in which models meet the test
set (eval-every).
"""

import math
import statistics
from typing import Any

import numpy as np
from flwr.common import Parameters, Scalar, parameters_to_ndarrays

from common.methods.fedavg import FedAvg
from common.wire.payload import Arrays
from server.messages.plain import FitOutcome
from server.strategy.average import Failures, Results, in_partition_order, shared_only, shares_of
from server.strategy.wrapper import StrategyWrapper

PREFIX = "diagnostics."
DRIFT = f"{PREFIX}drift"
LOCAL = f"{PREFIX}local_model"


class Drift(StrategyWrapper[FedAvg]):
    """Sits directly round the average, and so sees exactly what is averaged (with FedNova: the
    normalised models).

    Distances are Euclidean, over the trainable weights that are shared. They need every client's
    reply: a secure sum, which shows the server the mean alone, has no drift to report.
    """

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """The average as it is, and one figure more."""
        aggregated, metrics = super().aggregate_fit(server_round, results, failures)
        weighting = self.context.weighting if self.context else "examples"
        ordered = in_partition_order(results)
        weights = shares_of([result.num_examples for _, result in ordered], weighting)
        if aggregated is None or weights is None or not aggregated.tensors:
            return aggregated, metrics
        average = parameters_to_ndarrays(aggregated)
        distances = (self.distance(shared_only(result), average) for _, result in ordered)
        return aggregated, {
            **metrics,
            DRIFT: sum(p * d for p, d in zip(weights, distances, strict=True)),
        }

    def distance(self, model: Arrays, average: Arrays) -> float:
        """Between two models, in double precision."""
        trainable = self.context.trainable if self.context else (True,) * len(average)
        pairs = zip(model, average, trainable, strict=True)
        return math.sqrt(
            sum(float(np.square(a - b, dtype=np.float64).sum()) for a, b, counts in pairs if counts)
        )


def diagnose(outcome: FitOutcome, progress: dict[str, Any]) -> dict[str, float]:
    """The diagnostics of one round; the running number of samples is kept in `progress`, and so in
    the checkpoint."""
    progress["samples"] = progress.get("samples", 0) + sum(
        int(client.get("samples", 0)) for client in outcome.clients
    )
    figures = {"drift": float(outcome.metrics[DRIFT])} if DRIFT in outcome.metrics else {}
    trained = [client for client in outcome.clients if client["examples"]]
    for name in sorted({name for client in trained for name in client if name.startswith(LOCAL)}):
        scores = [(client["examples"], client[name]) for client in trained if name in client]
        on, metric = name.removeprefix(PREFIX).rsplit(".", 1)
        total = sum(examples for examples, _ in scores)
        figures[f"{on}.by_examples.{metric}"] = (
            sum(examples * score for examples, score in scores) / total
        )
        figures[f"{on}.by_clients.{metric}"] = statistics.fmean(score for _, score in scores)
    return {**figures, "samples": progress["samples"]}
