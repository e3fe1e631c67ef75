"""FedYogi: Yogi on the server, whose second moment does not soon forget a rare large update.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan: Adaptive Federated Optimization,
ICLR 2021.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i
    server             D = sum_i p_i w_i - w,  m <- beta1 m + (1 - beta1) D,  v <- v - (1 - beta2)
                       D^2 sign(v - D^2), w <- w + lr m / (sqrt(v) + tau)   (Algorithm 2; m starts
                       at zero, v at tau^2, no bias correction)

The second moment moves by at most D^2 per round. No setting gives FedAvg. If all clients return
what they received and m is zero, nothing moves.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.methods._adaptive import AdaptiveMethod


class FedYogi(AdaptiveMethod):
    """The paper tunes lr for every task, mostly between 0.01 and 0.1."""

    name: ClassVar[str] = "fedyogi"

    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """The second moment v moves by (1 - beta2) D^2 per round."""
