"""FedLC on the client: the calibrated cross-entropy. Declared in common/methods/fedlc.py."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.client.objective import Loss, Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.methods.fedlc import FedLc


class FedLcClient(Objective[FedLc]):
    """Holds the margins for the length of a round."""

    margins: Tensor | None = None  # (classes,): tau n_j^(-1/4), infinite if n_j is 0

    def begin(self, local: LocalRound) -> None:
        """Count the samples of every class."""
        if self.params.tau:
            counts = torch.tensor(local.data.class_counts, device=local.device)
            self.margins = self.params.tau * counts.float() ** -0.25

    def task_loss(self, step: Step, compute: Loss, logits: Tensor) -> Tensor:
        """-log(e^{f_y - m_y} / sum_j e^{f_j - m_j}), where m are the margins (eq. 7)."""
        if self.margins is None:
            return compute(logits)
        added = logits.shape[1] - len(self.margins)  # outputs of other methods
        return compute(logits - F.pad(self.margins, (0, added)))
