"""FedAdagrad: Adagrad on the server, so weights that have moved much move less from now on.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization,
ICLR 2021.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i
    server             D = sum_i p_i w_i - w,  m <- beta1 m + (1 - beta1) D,  v <- v + D^2, w <- w +
                       lr m / (sqrt(v) + tau)   (Algorithm 2; m starts at zero, v at tau^2, no bias
                       correction)

No setting gives FedAvg. If all clients return what they received and m is zero, nothing moves.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.methods._adaptive import AdaptiveMethod


class FedAdagrad(AdaptiveMethod):
    """The paper tunes lr for every task."""

    name: ClassVar[str] = "fedadagrad"

    lr: Annotated[float, Field(gt=0)] = 0.1
    """eta: the server's learning rate, about how far a weight moves in the first rounds."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The fraction of the first moment m that is kept; 0, the usual Adagrad, uses only the update
    of this round."""
