"""FedMD-CG on the server: averages the clients' pairs, and distils from every one of them.

Declared in common/methods/fedmd_cg.py.
"""

import numpy as np
from flwr.common import Parameters
from flwr.server.client_manager import ClientManager

from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.common.wire.labels import SHARES
from fedmirage.server.strategy.pair_server import Distillation, PairServer
from fedmirage.server.strategy.pairs import compare_by_divergence, compare_by_product
from fedmirage.server.strategy.wrapper import Instructions, attach


class FedMdCgServer(PairServer[FedMdCg]):
    """With aggregation="ave" or "ave_star", the pair is the inner strategy's business."""

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """p(y) goes to everybody who trains; before anything is known, all classes are alike."""
        classes = self.context.classes
        shares = self.state.shares or [np.full(classes, 1 / classes)]
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        return attach(asked, SHARES, shares)

    def distillation(self) -> Distillation | None:
        """Equations 10 to 12, or FedCG's."""
        params = self.params
        if not params.distils:
            return None
        compare = compare_by_divergence(params.temperature, params.reverse)
        by_product = params.crossed_loss == "product"
        return Distillation(
            kind="kd" if params.aggregation == "kd" else "kdc",
            steps=params.server_steps,
            lr=params.server_lr,
            weight_decay=params.adam_weight_decay,
            compare=compare,
            compare_crossed=compare_by_product(params.temperature) if by_product else compare,
            batch=params.generated_batch,
            noise=params.noise,
            noise_dim=params.noise_dim,
            same_noise=params.same_noise,
        )

    @property
    def count_smoothing(self) -> float:
        """The code's counts begin at 1."""
        return self.params.count_smoothing
