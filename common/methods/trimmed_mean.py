"""Trimmed mean: for every weight, the smallest and the largest of the clients' values are left out.

Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates, ICML 2018.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i
    server             for every coordinate, leaves out the floor(trim m) smallest and the
                       floor(trim m) largest of the m clients' values, and averages the others

As long as no more than floor(trim m) clients are hostile, every coordinate stays between values of
honest ones. Running statistics of BatchNorm are trimmed like weights, because a client could spoil
the model through them too; integer counters are never sent. Every client counts the same however
many samples it has, since it could gain weight by a false count. What other methods send besides
the model is averaged as always, so a hostile client still moves that.

Sections: none besides `shared`.
Differs from the paper: clients send what several local steps lead to, not gradients. All start from
w, so the order of their models' values is that of their updates'.
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedmirage.common.methods._robust import RobustMethod
from fedmirage.common.settings.config import RunConfig


class TrimmedMean(RobustMethod):
    """Nothing is remembered, and nothing extra is sent."""

    name: ClassVar[str] = "trimmed-mean"
    quick: ClassVar[dict[str, Any]] = {"trim": 0.25}

    trim: Annotated[float, Field(ge=0, lt=0.5)] = 0.1
    """beta: the share of the clients whose values are left out on each side, at least that of the
    hostile ones; 0 gives FedAvg with weighting='uniform'."""

    def cut(self, clients: int) -> int:
        """How many values are left out on each side; rounding must not turn 0.29 * 100 into 28."""
        return min(int(self.trim * clients + 1e-9), (clients - 1) // 2)

    def cautions(self, config: RunConfig) -> list[str]:
        """With few clients a round, the share may be less than one of them."""
        found = super().cautions(config)
        if self.trim and not self.cut(config.drawn):
            found.append(
                f"methods: trimmed-mean(trim={self.trim:g}) leaves nobody out of"
                f" {config.drawn} clients a round: all of this run is without it; raise trim or"
                " participation"
            )
        return found
