"""FedExP: the more the clients' updates disagree, the longer the server's step.

Jhunjhunwala, Wang, Joshi: FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR 2023.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i, and ||D_i||^2 of its update D_i = w_i - w
    server             D = sum_i p_i D_i,  step = max(1, sum_i p_i ||D_i||^2 / (2 (||D||^2 + eps))),
                       w <- w + step D

Norms are taken over the trainable weights, without the running statistics of BatchNorm.
Differs from the paper: p_i is the weight that the run gives a client, not 1/M, because the average
has the same weights.
Differs from the released code: eps is neither multiplied by the number of participants nor decayed,
and the model that is evaluated is the last one, not the mean of the last two, because the paper's
Algorithm 1 is what others compare with.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import Method, Place, Section

SQUARED_NORM = "squared_norm"  # the section: one number


class FedExP(Method):
    """If the clients agree or eps is large, the step is 1 and the method is FedAvg."""

    name: ClassVar[str] = "fedexp"
    title: ClassVar[str] = "FedExP: Speeding Up Federated Averaging via Extrapolation"
    authors: ClassVar[str] = "Jhunjhunwala et al., ICLR 2023"
    link: ClassVar[str] = "https://arxiv.org/abs/2301.09604"
    place: ClassVar[Place] = Place.CHANGES
    up: ClassVar[tuple[Section, ...]] = (
        Section(SQUARED_NORM, weighting="run", holds="number", least=0),
    )

    eps: Annotated[float, Field(gt=0)] = 1e-3
    """epsilon: keeps the step finite if the updates cancel out; a large one gives FedAvg."""
