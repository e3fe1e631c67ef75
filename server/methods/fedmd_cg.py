"""FedMD-CG on the server: averages the clients' pairs, and distils from every one of them.

Declared in common/methods/fedmd_cg.py. Equations 10 to 12, which FedCG can use too, are in _pairs/.
"""

import numpy as np
import torch.nn.functional as F
from flwr.common import Parameters
from flwr.server import ClientManager

from fedmirage.common.methods._labels import SHARES
from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.server.methods._pairs.losses import Compare
from fedmirage.server.methods._pairs.server import PairServer
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

    def compare_crossed(self, compare: Compare) -> Compare:
        """By the divergence of eq. 11, or as in the code."""
        by_product = self.params.crossed_loss == "product"
        return compare_by_product(self.params.temperature) if by_product else compare


def compare_by_product(temperature: float) -> Compare:
    """-p q of every sample for the two distributions p and q, as in the code for L3."""
    return lambda student, teacher: (
        -(F.softmax(teacher / temperature, dim=1) * F.softmax(student / temperature, dim=1)).sum(1)
    )
