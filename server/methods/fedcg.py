"""FedCG on the server: averages the clients' pairs, and distils the mean of their logits.

Declared in common/methods/fedcg.py.
"""

from flwr.common import Parameters, Scalar

from fedmirage.common.methods.fedcg import FedCg
from fedmirage.common.wire.labels import Counts, label_shares
from fedmirage.server.strategy.average import Failures, Results
from fedmirage.server.strategy.pair_server import Distillation, PairServer
from fedmirage.server.strategy.pairs import compare_by_divergence


class FedCgServer(PairServer[FedCg]):
    """With aggregation="ave", the pair is the inner strategy's business."""

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Average the pairs and distil; without distillation, clients send no label counts."""
        if not self.params.distils:
            return self.inner.aggregate_fit(server_round, results, failures)
        return super().aggregate_fit(server_round, results, failures)

    def label_distribution(self, counts: Counts) -> Counts:
        """All classes that somebody has alike, or in proportion to their samples."""
        mean = counts.mean(0)
        return label_shares(mean if self.params.labels == "shares" else mean > 0)

    def distillation(self) -> Distillation | None:
        """Distil as published, or crosswise as FedMD-CG does."""
        params = self.params
        if not params.distils:
            return None
        compare = compare_by_divergence(params.temperature, reverse=False)
        return Distillation(
            kind="kd" if params.aggregation == "kd" else "kdc",
            steps=params.server_steps,
            lr=params.server_lr,
            weight_decay=params.adam_weight_decay,
            compare=compare,
            compare_crossed=compare,
            batch=params.generated_batch,
            noise=params.noise,
            noise_dim=params.noise_dim,
        )
