"""FedNova: each client's update is divided by its steps, so many steps do not count more.

Wang, Liu, Liang, Joshi, Poor: Tackling the Objective Inconsistency Problem in Heterogeneous
Federated Optimization, NeurIPS 2020.

One round
    server -> client   the global model w
    client             as in FedAvg: t_i steps of SGD with momentum m
    client -> server   d_i = (w_i - w) / a_i as `shared`, and a_i, the weight that its gradients
                       have in w_i - w
    server             w <- w + (sum_i p_i a_i) sum_i p_i d_i

a_i = [t - m (1 - m^t) / (1 - m)] / (1 - m), which is t without momentum. If all clients make the
same number of steps, this is FedAvg, up to rounding. Running statistics of BatchNorm are sent as
they are and averaged.
Differs from the paper: beside fedprox, a_i is still that of plain SGD, because the proximal term
counts as part of the gradient.
"""

from typing import ClassVar

from fedmirage.common.learning.steps import check_sgd
from fedmirage.common.method import Method, Place, Section
from fedmirage.common.settings.config import RunConfig

EFFECTIVE_STEPS = "effective_steps"  # the section: a_i, one number


class FedNova(Method):
    """Nothing to set: steps, epochs and momentum belong to the run."""

    name: ClassVar[str] = "fednova"
    title: ClassVar[str] = (
        "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization"
    )
    authors: ClassVar[str] = "Wang et al., NeurIPS 2020"
    link: ClassVar[str] = "https://arxiv.org/abs/2007.07481"
    place: ClassVar[Place] = Place.CHANGES
    up: ClassVar[tuple[Section, ...]] = (
        Section(EFFECTIVE_STEPS, weighting="run", holds="number", least=0),
    )

    def check(self, config: RunConfig) -> list[str]:
        """a_i is known only for SGD that starts afresh."""
        return check_sgd(config, "fednova", "counts the steps")
