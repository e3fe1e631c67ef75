"""LG-FedAvg: personal extractors under a common classifier.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency: Think Locally, Act Globally:
Federated Learning with Local and Global Representations, 2020.

One round
    server -> client   the classifier
    client             puts it on its own extractor (the first time: the common initial one) and
                       trains both on its data
    client -> server   the classifier; the extractor stays
    server             averages the classifiers

There is no global model, so results have no `accuracy`; instead, the local models are scored under
names of their own, as for `local`.
Differs from the released code: clients begin with the run's initial model, not with one that FedAvg
has trained, because FedMD-CG's tables do so too.
"""

from typing import ClassVar

from fedmirage.common.method import CLASSIFIER, Method, Parts


class LgFedAvg(Method):
    """Nothing to set."""

    name: ClassVar[str] = "lg-fedavg"
    title: ClassVar[str] = (
        "Think Locally, Act Globally: Federated Learning with Local and Global Representations"
    )
    authors: ClassVar[str] = "Liang et al., 2020"
    link: ClassVar[str] = "https://arxiv.org/abs/2001.01523"
    parts: ClassVar[Parts] = Parts(sends=(CLASSIFIER,))
