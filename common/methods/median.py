"""Median: every weight of the next model is the median of the clients' values.

Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates, ICML 2018.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i
    server             takes the median of the clients' values for every coordinate; of an even
                       number of clients, the mean of the two values in the middle

As long as fewer than half of the clients are hostile, every coordinate stays between values of
honest ones. This is `trimmed-mean` that leaves out as many as it can; what its page says of
BatchNorm, of weights and of other methods holds here too. The median of one or two clients is their
mean.

Sections: none besides `shared`.
Differs from the paper: clients send what several local steps lead to, not gradients. All start from
w, so the median of their models is that of their updates.
"""

from typing import ClassVar

from fedmirage.common.methods._robust import RobustMethod


class Median(RobustMethod):
    """Nothing to set. Nothing is remembered, and nothing extra is sent."""

    name: ClassVar[str] = "median"

    def cut(self, clients: int) -> int:
        """How many values are left out on each side of the median."""
        return (clients - 1) // 2
