"""SCAFFOLD: control variates take each client's own drift out of its steps.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning, ICML 2020.

One round
    server -> client   the global model w, and the server's control variate c (zero at first)
    client             every step along g - c_i + c, as the gradient of a term <c - c_i, w_i>, which
                       is linear in w_i; then c_i+ = c_i - c + (w - w_i) / (a eta) (option II), c_i
                       zero on a first visit
    client -> server   its model w_i, and c_i+ - c_i
    server             averages the models; c <- c + (|S|/N) mean_S (c_i+ - c_i), with equal weights
                       for all clients

Sections: `control` goes down, `control-delta` goes up. Each has one array per trainable weight, and
none for BatchNorm's running statistics.
Remembered: c_i ("scaffold.control"), in this run only: a warm start begins with zeros on both
sides. Weight decay and the terms of other methods are part of the local objective, and so of c_i.
The server's step is 1, as in the paper's experiments. The run decides how models are weighted;
weighting="uniform" is the paper.
Differs from the paper: a is FedNova's a_i, which is K for plain SGD and more with momentum, because
with momentum (w - w_i) / (K eta) is up to 1 / (1 - momentum) times the mean gradient.
"""

from typing import ClassVar

from fedmirage.common.learning.steps import check_sgd
from fedmirage.common.method import NETWORK, Method, Parts, Section, first_round
from fedmirage.common.settings.config import RunConfig

CONTROL = "control"  # the section down: c
CONTROL_DELTA = "control-delta"  # the section up: c_i+ - c_i


class Scaffold(Method):
    """Nothing to set. In its first round it equals FedAvg."""

    name: ClassVar[str] = "scaffold"
    title: ClassVar[str] = "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning"
    authors: ClassVar[str] = "Karimireddy et al., ICML 2020"
    link: ClassVar[str] = "https://arxiv.org/abs/1910.06378"
    metrics: ClassVar[tuple[str, ...]] = ("term.control",)

    parts: ClassVar[Parts] = Parts(requires=NETWORK)  # c covers every trainable weight
    down: ClassVar[tuple[Section, ...]] = (Section(CONTROL),)
    up: ClassVar[tuple[Section, ...]] = (Section(CONTROL_DELTA, "uniform"),)

    def acts_from(self, config: RunConfig) -> int:
        """A run's first round, warm or not, gathers the control variates; the second uses them."""
        return first_round(config) + 1

    def check(self, config: RunConfig) -> list[str]:
        """(w - w_i) / (a eta) is a mean of gradients only for SGD that starts afresh."""
        return check_sgd(config, "scaffold", "reads gradients off the steps")
