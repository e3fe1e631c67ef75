"""FedSAM: clients descend along the gradient at the worst point nearby, towards flat minima.

Qu, Li, Duan, Liu, Tang, Lu: Generalized Federated Learning via Sharpness Aware Minimization, ICML
2022. The same local step was proposed by Caldarola, Caputo, Ciccone: Improving Generalization in
Federated Learning by Seeking Flat Minima, ECCV 2022.

One round
    server -> client   the global model w
    client             every step: g at w_i, then g' at w_i + rho g / ||g||, then a step of the
                       optimiser from w_i along g'
    client -> server   its model w_i
    server             averages

Sections: none besides `shared`. A step has two passes and so takes twice the time. The norm is over
all trainable weights together. Both passes evaluate the whole local objective, including the terms
of other methods, and the metrics in results.jsonl are means over both. BatchNorm's running
statistics move in the second pass only.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method


class FedSam(Method):
    """Nothing is remembered, and nothing extra is sent."""

    name: ClassVar[str] = "fedsam"
    title: ClassVar[str] = "Generalized Federated Learning via Sharpness Aware Minimization"
    authors: ClassVar[str] = "Qu et al., ICML 2022"
    link: ClassVar[str] = "https://arxiv.org/abs/2206.02618"

    rho: Annotated[float, Field(ge=0)] = 0.5
    """rho: how far from the weights the gradient is taken. FedCOG's comparison uses 0.5, its code
    0.05; 0 gives FedAvg."""
