"""FedCG on the server: averages the clients' pairs, and distils the mean of their logits.

Declared in common/methods/fedcg.py. The distillation, which FedMD-CG can use too, is in _pairs/.
"""

from fedmirage.common.methods._labels import Counts, label_shares
from fedmirage.common.methods.fedcg import FedCg
from fedmirage.server.methods._pairs.server import PairServer


class FedCgServer(PairServer[FedCg]):
    """With aggregation="ave", the pair is the inner strategy's business."""

    def label_distribution(self, counts: Counts) -> Counts:
        """All classes that somebody has alike, or in proportion to their samples."""
        mean = counts.mean(0)
        return label_shares(mean if self.params.labels == "shares" else mean > 0)
