"""EMA: the model that is scored and saved is a moving average of the global models.

Polyak, Juditsky: Acceleration of Stochastic Approximation by Averaging, 1992; with an exponential
window as in Tarvainen, Valpola: Mean Teachers Are Better Role Models, NeurIPS 2017.

One round
    server -> client   the global model w, which is not averaged over rounds
    client             as in FedAvg
    client -> server   its model w_i
    server             w <- sum_i p_i w_i; m <- decay m + (1 - decay) w, where the first m is w;
                       releases m

Sections: none. All that common/methods/swa.py says about its average holds for this one too: what
is scored and saved, its place in the methods line, later runs, and BatchNorm.
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedmirage.common.method import NETWORK, Method, Parts, Place, first_round
from fedmirage.common.settings.config import RunConfig


class Ema(Method):
    """A model of r rounds ago counts decay^r times as much as the last one."""

    name: ClassVar[str] = "ema"
    title: ClassVar[str] = "Acceleration of Stochastic Approximation by Averaging"
    authors: ClassVar[str] = "Polyak and Juditsky, 1992"
    link: ClassVar[str] = "https://doi.org/10.1137/0330046"
    quick: ClassVar[dict[str, Any]] = {"decay": 0.5}

    parts: ClassVar[Parts] = Parts(requires=NETWORK)  # where a part is shared, nothing is scored
    place: ClassVar[Place] = Place.RELEASES

    decay: Annotated[float, Field(ge=0, lt=1)] = 0.8
    """The weight of the old average in the new one, about 1 / (1 - decay) rounds long; 0 gives
    FedAvg."""
    start: Annotated[int, Field(ge=1)] = 1
    """The first round whose global model enters the average."""

    def acts_from(self, config: RunConfig) -> int:
        """The first average is the model itself."""
        return max(first_round(config), self.start) + 1
