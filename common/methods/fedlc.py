"""FedLC: the fewer samples a client has of a class, the larger the margin that it asks for.

Zhang, Li, Li, Xu, Wu, Ding, Wu: Federated Learning with Label Distribution Skew via Logits
Calibration, ICML 2022.

One round
    server -> client   the global model w
    client             trains on the cross-entropy of the logits f_j - tau n_j^(-1/4), where n_j is
                       the number of its samples of class j
    client -> server   its model w_i
    server             averages

A class that a client lacks has n_j = 0: its calibrated logit is minus infinity, so it leaves the
softmax, and training does not push its logit down. Beside a method that replaces the clients' data,
n_j counts what is trained on. Outputs that another method adds to the head (VHL's virtual classes)
keep their logits.

Sections: none besides `shared`.
Differs from the paper: the softmax sums over all classes, because eq. 7, whose sum leaves out the
right class, has no lower bound; other implementations do the same.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method


class FedLc(Method):
    """Nothing is remembered, and nothing extra is sent."""

    name: ClassVar[str] = "fedlc"
    title: ClassVar[str] = "Federated Learning with Label Distribution Skew via Logits Calibration"
    authors: ClassVar[str] = "Zhang et al., ICML 2022"
    link: ClassVar[str] = "https://arxiv.org/abs/2209.00189"
    single_label_because: ClassVar[str] = "its margins are between classes that exclude each other"

    tau: Annotated[float, Field(ge=0)] = 0.5
    """tau: the scale of the margins; 0 gives FedAvg, and any other value takes the classes that a
    client lacks out of its softmax. 0.5 is the value of Flower's baseline."""
