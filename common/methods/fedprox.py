"""FedProx: a proximal term keeps local models near the one they came from.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks, MLSys
2020.

One round
    server -> client   the global model w
    client             trains on the task loss + (mu/2) ||w_i - w||^2, over the trainable weights
    client -> server   its model w_i
    server             averages

Sections: none besides `shared`.
Differs from the paper: every client makes all its steps, because stragglers that stop halfway are
not simulated.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method


class FedProx(Method):
    """Nothing is remembered, and nothing extra is sent."""

    name: ClassVar[str] = "fedprox"
    title: ClassVar[str] = "Federated Optimization in Heterogeneous Networks"
    authors: ClassVar[str] = "Li et al., MLSys 2020"
    link: ClassVar[str] = "https://arxiv.org/abs/1812.06127"
    metrics: ClassVar[tuple[str, ...]] = ("term.proximal",)

    mu: Annotated[float, Field(ge=0)] = 0.01
    """mu: the weight of the proximal term. The paper tunes it between 0.001 and 1, FedCOG uses
    0.01; 0 gives FedAvg."""
