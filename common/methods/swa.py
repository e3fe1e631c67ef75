"""SWA: the model that is scored and saved is the mean of the last global models.

Izmailov, Podoprikhin, Garipov, Vetrov, Wilson: Averaging Weights Leads to Wider Optima and Better
Generalization, UAI 2018. On the server of a federation: Caldarola, Caputo, Ciccone: Improving
Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022.

One round
    server -> client   the global model w, which is not averaged over rounds
    client             as in FedAvg
    client -> server   its model w_i
    server             w <- sum_i p_i w_i; releases the mean of the last `length` w

Sections: none. The average over rounds is computed from what every server has, so nothing changes
for the clients, for secure aggregation or for the privacy budget. It stands right of methods that
change the global model, whose results it averages. `accuracy`, validation, model.safetensors and
best.safetensors are those of the average; results.jsonl has the scores of the last global model as
swa.last.accuracy and swa.last.loss. A later run starts from the last global model, and the models
that keep-models="all" keeps are the global ones. A warm start averages its own rounds only.
Differs from the paper: the running statistics of BatchNorm are averaged like the weights, because
the server has no data to compute them anew.
Differs from the paper: the learning rate belongs to the run (`schedule`), because the average is
also of use where the rate is not cyclical.
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedmirage.common.method import NETWORK, Method, Parts, Place, first_round
from fedmirage.common.settings.config import RunConfig


class Swa(Method):
    """The mean of the last five global models, unless the keys say otherwise."""

    name: ClassVar[str] = "swa"
    title: ClassVar[str] = "Averaging Weights Leads to Wider Optima and Better Generalization"
    authors: ClassVar[str] = "Izmailov et al., UAI 2018"
    link: ClassVar[str] = "https://arxiv.org/abs/1803.05407"
    quick: ClassVar[dict[str, Any]] = {"length": 2}

    parts: ClassVar[Parts] = Parts(requires=NETWORK)  # where a part is shared, nothing is scored
    place: ClassVar[Place] = Place.RELEASES

    length: Annotated[int, Field(ge=1)] | None = 5
    """k: how many of the last global models are averaged; 1 gives FedAvg. None averages all of them
    from `start` on, as the paper does."""
    start: Annotated[int, Field(ge=1)] = 1
    """The first round whose global model enters the average."""

    def acts_from(self, config: RunConfig) -> int:
        """The mean of one model is that model."""
        return max(first_round(config), self.start) + 1
