"""FedDecorr: local features are kept from collapsing onto a few dimensions.

Shi, Liang, Zhang, Tan, Bai: Towards Understanding and Mitigating Dimensional Collapse in
Heterogeneous Federated Learning, ICLR 2023.

One round
    server -> client   the global model w
    client             trains on the task loss + beta * mean squared off-diagonal correlation of the
                       batch's penultimate features
    client -> server   its model w_i
    server             averages

Sections: none besides `shared`.
Differs from the paper: the scale is that of its code, which divides the mean square of Z^T Z (Z the
standardised features) by the batch size N, but not the matrix itself, because every published beta
is for that scale. It is about N times the formula in the paper.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method


class FedDecorr(Method):
    """Nothing is remembered, and nothing extra is sent.

    A batch of one has no correlations and adds nothing.
    """

    name: ClassVar[str] = "feddecorr"
    title: ClassVar[str] = (
        "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated"
        " Learning"
    )
    authors: ClassVar[str] = "Shi et al., ICLR 2023"
    link: ClassVar[str] = "https://arxiv.org/abs/2210.00226"
    metrics: ClassVar[tuple[str, ...]] = ("term.decorrelation",)

    beta: Annotated[float, Field(ge=0)] = 0.1
    """beta: the weight of the term. The paper uses 0.1, FedCOG's comparison 0.01; 0 gives
    FedAvg."""
