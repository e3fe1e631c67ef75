"""FedPer: a common extractor under personal classifiers.

Arivazhagan, Aggarwal, Singh, Choudhary: Federated Learning with Personalization Layers, 2019.

One round
    server -> client   the extractor
    client             puts its own classifier on it (the first time: the common initial one) and
                       trains both on its data
    client -> server   the extractor; the classifier stays
    server             averages the extractors

Each model decides where it is cut: `lenet-bn` as in FedMD-CG's tables, with the convolutions below
and the linear layers above. There is no global model, so results have no `accuracy`; instead, the
local models are scored under names of their own, as for `local`.
"""

from typing import ClassVar

from fedmirage.common.method import FEATURES, Method, Parts


class FedPer(Method):
    """Nothing to set."""

    name: ClassVar[str] = "fedper"
    title: ClassVar[str] = "Federated Learning with Personalization Layers"
    authors: ClassVar[str] = "Arivazhagan et al., 2019"
    link: ClassVar[str] = "https://arxiv.org/abs/1912.00818"
    parts: ClassVar[Parts] = Parts(sends=(FEATURES,))
