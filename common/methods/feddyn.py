"""FedDyn: a dynamic penalty lines up each client's optimum with the common one.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama: Federated Learning Based on Dynamic
Regularization, ICLR 2021.

One round
    server -> client   the global model w
    client             trains on the task loss - <h_i, w_i> + (alpha/2) ||w_i - w||^2, then h_i <-
                       h_i - alpha (w_i - w)
    client -> server   its model w_i, and w_i - w
    server             h <- h - alpha (|S|/N) mean_S (w_i - w), with equal weights for all clients;
                       w <- average - h / alpha

Sections: `moved` goes up, with one array per trainable weight. BatchNorm's running statistics are
only averaged.
Remembered: h_i ("feddyn.gradient"), in this run only: a warm start begins with zeros on both sides.
No setting gives FedAvg: h / alpha does not depend on alpha, so the first round takes nearly twice
FedAvg's step. If every client returns what it received and h is zero, nothing moves: that is the
fixed point, with h_i the gradient of client i there.
Differs from the paper: w_i - w travels beside w_i, because all clients must count equally in h for
it to be the mean of the h_i, while the run may average models by examples; weighting="uniform" is
the paper.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import NETWORK, Method, Parts, Place, Section

MOVED = "moved"  # the section up: w_i - w


class FedDyn(Method):
    """It has its own server step, so no other rule for the global update can stand beside it."""

    name: ClassVar[str] = "feddyn"
    title: ClassVar[str] = "Federated Learning Based on Dynamic Regularization"
    authors: ClassVar[str] = "Acar et al., ICLR 2021"
    link: ClassVar[str] = "https://arxiv.org/abs/2111.04263"
    metrics: ClassVar[tuple[str, ...]] = ("term.linear", "term.quadratic")

    place: ClassVar[Place] = Place.CHANGES
    parts: ClassVar[Parts] = Parts(requires=NETWORK)  # h covers every trainable weight
    up: ClassVar[tuple[Section, ...]] = (Section(MOVED, "uniform"),)

    alpha: Annotated[float, Field(gt=0)] = 0.01
    """alpha: the weight of the penalty; the paper tunes it between 0.001 and 0.1. With a smaller
    alpha, clients move further from the global model."""
