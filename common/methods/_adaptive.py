"""What FedAdam, FedYogi and FedAdagrad declare alike: all but the second moment."""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method, Place


class AdaptiveMethod(Method):
    """The paper tunes lr for every task, mostly between 0.01 and 0.1."""

    title: ClassVar[str] = "Adaptive Federated Optimization"
    authors: ClassVar[str] = "Reddi et al., ICLR 2021"
    link: ClassVar[str] = "https://arxiv.org/abs/2003.00295"
    place: ClassVar[Place] = Place.CHANGES

    lr: Annotated[float, Field(gt=0)] = 0.01
    """eta: the server's learning rate, about how far a weight moves per round."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """The fraction of the first moment m that is kept; 0 uses only the update of this round."""
    tau: Annotated[float, Field(gt=0)] = 1e-3
    """How adaptive the rule is: weights whose updates are well below tau move less. A large tau
    comes close to plain averaging."""
