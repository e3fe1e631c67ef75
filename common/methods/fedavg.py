"""FedAvg: the base of every run; naming it in the methods line changes nothing.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks
from Decentralized Data, AISTATS 2017.

One round
    server -> client   the global model w
    client             local-epochs passes (or local-steps steps) of the optimiser on its own data,
                       starting at w
    client -> server   its model w_i and n_i, the number of its examples
    server             w <- sum_i (n_i / n) w_i
"""

from typing import ClassVar

from fedmirage.common.method import Method


class FedAvg(Method):
    """Nothing to set: weighting, steps and optimiser belong to the run."""

    name: ClassVar[str] = "fedavg"
    title: ClassVar[str] = (
        "Communication-Efficient Learning of Deep Networks from Decentralized Data"
    )
    authors: ClassVar[str] = "McMahan et al., AISTATS 2017"
    link: ClassVar[str] = "https://arxiv.org/abs/1602.05629"
