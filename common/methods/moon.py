"""MOON: features are pulled towards the global model's, and away from the client's own last ones.

Li, He, Song: Model-Contrastive Federated Learning, CVPR 2021.

One round
    server -> client   the global model w
    client             trains on the task loss + mu * mean_x -log( e^{cos(z,z_g)/T} /
                       (e^{cos(z,z_g)/T} + e^{cos(z,z_p)/T}) ), z its features of x, z_g those of w,
                       z_p those of its own model of the last round it took part in
    client -> server   its model w_i
    server             averages

Sections: none besides `shared`. Remembered: the last local model ("local.model").
On a first visit, w takes the role of the last model: the term is then the constant
log 2, and its gradient is exactly zero.
Differs from the paper: z are the penultimate features, without its two-layer projection head, as in
FedCOG's comparison, because a head would change the model that all methods are compared on.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from fedmirage.common.method import FEATURES, Method, Parts, first_round
from fedmirage.common.settings.config import RunConfig


class Moon(Method):
    """The two reference models look at each batch in evaluation mode and without gradients."""

    name: ClassVar[str] = "moon"
    title: ClassVar[str] = "Model-Contrastive Federated Learning"
    authors: ClassVar[str] = "Li, He, Song, CVPR 2021"
    link: ClassVar[str] = "https://arxiv.org/abs/2103.16257"
    metrics: ClassVar[tuple[str, ...]] = ("term.contrast",)
    reads_local_model: ClassVar[bool] = True

    # With features of its own, a client's two references would be one.
    parts: ClassVar[Parts] = Parts(requires=(FEATURES,))

    mu: Annotated[float, Field(ge=0)] = 0.01
    """mu: the weight of the contrast. FedCOG's 0.01 is for these features, the paper's 0.1 to 10
    for its projection head; 0 gives FedAvg."""
    temperature: Annotated[float, Field(gt=0)] = 0.5
    """tau: divides the cosines; a smaller tau makes the contrast sharper."""

    def acts_from(self, config: RunConfig) -> int:
        """On a client's first visit, both references are equal, and the contrast has no gradient.

        A warm start inherits the clients' last models.
        """
        return first_round(config) + (not config.warm_start)
