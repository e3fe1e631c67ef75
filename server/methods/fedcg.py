"""FedCG on the server: averages the clients' pairs, and distils the mean of their logits.

Declared in common/methods/fedcg.py.
"""

from common.methods.fedcg import FedCg
from common.wire.labels import Counts, label_shares
from server.strategy.pair_server import Distillation, PairServer
from server.strategy.pairs import compare_by_divergence


class FedCgServer(PairServer[FedCg]):
    """With aggregation="ave", the pair is the inner strategy's business."""

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
