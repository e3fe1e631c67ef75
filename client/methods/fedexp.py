"""FedExP on the client: the squared norm of its update. Declared in common/methods/fedexp.py."""

import numpy as np

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound
from fedmirage.common.methods.fedexp import SQUARED_NORM, FedExP
from fedmirage.common.wire.payload import Sections


class FedExPClient(Objective[FedExP]):
    """Trains as FedAvg does, and measures how far it went."""

    def end(self, local: LocalRound) -> Sections:
        """||w_i - w||^2 over the trainable weights that are shared, in double precision."""
        trained = dict(local.model.named_parameters())
        squares = [
            float((trained[name].detach() - sent).double().square().sum())
            for name, sent in local.shared_reference().items()
        ]
        return {SQUARED_NORM: [np.array([sum(squares)])]}
