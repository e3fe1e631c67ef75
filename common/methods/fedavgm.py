"""FedAvgM: momentum on the server, so one skewed round does not turn the model around.

Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i
    server             D = sum_i p_i w_i - w,  v <- momentum v + D,  w <- w + lr v   (v starts at
                       zero)
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method, Place, first_round
from fedmirage.common.settings.config import RunConfig


class FedAvgM(Method):
    """The default is FedCOG's setting; the original work has momentum=0.9, nesterov=True."""

    name: ClassVar[str] = "fedavgm"
    title: ClassVar[str] = (
        "Measuring the Effects of Non-Identical Data Distribution for Federated Visual"
        " Classification"
    )
    authors: ClassVar[str] = "Hsu et al., 2019"
    link: ClassVar[str] = "https://arxiv.org/abs/1909.06335"
    place: ClassVar[Place] = Place.CHANGES

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """beta: the fraction of the last rounds' movement that is kept; 0 with lr=1 gives FedAvg.
    FedCOG uses 0.1, the original work 0.9."""
    lr: Annotated[float, Field(gt=0)] = 1.0
    """The server's learning rate."""
    nesterov: bool = False
    """Look ahead as Nesterov does: w <- w + lr (momentum v + D) with the new v."""

    def acts_from(self, config: RunConfig) -> int:
        """The first round has no velocity yet: it is FedAvg's with lr=1 and without Nesterov."""
        return first_round(config) + (self.lr == 1 and not self.nesterov)
