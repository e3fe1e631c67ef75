"""DynaFed: the server learns a small data set from the global model's path, and repairs with it.

Pi, Zhang, Xie, Gao, Wang, Kim, Chen: DYNAFED: Tackling Client Data Heterogeneity with Global
Dynamics, CVPR 2023.

One round
    server -> client   the global model w
    client             as in FedAvg
    client -> server   its model w_i
    server             averages; rounds 1 to L: keeps the average; round L: learns images X and soft
                       labels Y such that s' steps on them lead from w^t to near w^{t+s} (algorithm
                       1); from then on trains every average on (X, Y) for a few passes

Sections: none. X and Y never leave the server, and only averages of at least `min_participants`
clients enter the path. It stands right of a server rule: the rule's step comes first, and the next
round's reference is the repaired model that was sent out. Beside VHL, whose head is wider, the path
and the labels are those of the real classes.
Without pictures: X are free numbers; the channels of a category need not add up to 1.
Differs from the paper: X and Y are learned by Adam with the code's learning rates, because the
paper's plain gradient descent comes without any.
Differs from the paper: the distance is the code's normalised squared one, because the text leaves
it open.
Differs from the code: the path consists of copies, because in the code all checkpoints alias one
model on a machine without a GPU.
Differs from the code: clients begin every round with a new Adam, because the paper does not say
that they remember anything; in the code its moments stay with each client, as they do here with
optimizer-state="kept".
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedmirage.common.method import NETWORK, Method, Parts, Place, first_round
from fedmirage.common.settings.config import RunConfig

Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"length": 20, "segment": 5, "draws": (2,), "initial": False, "same_round": False},
    # With the initial model, these are 25 checkpoints; the set is learned when round 25 begins.
    "code": {"length": 24, "segment": 3, "draws": (2, 3), "initial": True, "same_round": False},
}


class DynaFed(Method):
    """Defaults are the paper's, and the code's where the paper is silent.

    The repair for Fashion-MNIST has the setting of CIFAR-10.
    """

    name: ClassVar[str] = "dynafed"
    title: ClassVar[str] = "DYNAFED: Tackling Client Data Heterogeneity with Global Dynamics"
    authors: ClassVar[str] = "Pi et al., CVPR 2023"
    link: ClassVar[str] = "https://arxiv.org/abs/2211.10878"
    quick: ClassVar[dict[str, Any]] = {
        "length": 1,
        "segment": 1,
        "iterations": 2,
        "steps": 1,
        "per_class": 1,
        "epochs": 1,
        "lr": 0.01,
        "max_loss": 100,
        "min_participants": 1,
    }
    variants: ClassVar[dict[str, dict[str, Any]]] = VARIANTS

    parts: ClassVar[Parts] = Parts(requires=NETWORK)  # the server needs all weights to train on X
    single_label_because: ClassVar[str] = (
        "a synthetic image has one distribution over all classes for its label"
    )
    only_pictures: ClassVar[dict[str, Any]] = {"augment": False}
    placebo: ClassVar[dict[str, Any]] = {"source": "noise"}
    begins_as_fedavg: ClassVar[bool] = True
    place: ClassVar[Place] = Place.REPAIRS  # the global model changes after the server's update
    renamed: ClassVar[dict[str, str]] = {"accept": "max_loss"}

    variant: Literal["paper", "code"] | None = None
    """A published set of values for the keys in which paper and code differ; keys that are written
    out win. None uses the defaults."""
    length: Positive = 20
    """L: the number of averages in the path, after which the set is learned. If the run has fewer
    rounds, it is FedAvg. The code uses 24."""
    initial: bool = True
    """Begin the path with the initial model, which moves the furthest. Section 4.1 draws t from 1
    on, the code from 0."""
    segment: Positive = 5
    """s: the number of rounds between a start and its target; shortened if the path is shorter. The
    code uses 3."""
    target: Literal["average", "last"] = "average"
    """The end of a segment: "average" is the mean of some of w^{t+1} .. w^{t+s}, drawn with
    replacement; "last" is w^{t+s}."""
    draws: Annotated[tuple[Positive, ...], Field(min_length=1)] = (2,)
    """How many checkpoints are averaged. If there are several numbers, each iteration draws one of
    them. The code uses (2, 3)."""
    random_weights: bool = False
    """Weight them by the softmax of uniform random numbers instead of equally."""
    distance: Literal["squared", "cosine"] = "squared"
    """d: the squared or the cosine distance to the target, divided by that of the start; 1 means
    that the steps came no closer."""
    per_class: Positive = 15
    """Images per class. At first they belong to no class, since all labels begin uniform."""
    iterations: Positive = 3000
    """N: outer iterations."""
    steps: Positive = 20
    """s': inner SGD steps on the set, through which the distance is differentiated."""
    syn_batch: Positive | None = None
    """Images per inner step, in a new random order in every pass; None takes all. Memory grows with
    steps times this number."""
    recompute: bool = False
    """Compute every inner step again during the backward pass: this needs the memory of one step
    only, but about half as much time again."""
    by_hand: bool = True
    """Take the derivatives of a ConvNet's inner steps from formulas that are written out, which is
    1.65 times as fast; False leaves them to autograd, as for all other networks. Both give the same
    numbers, up to rounding."""
    augment: bool = True
    """DiffAugment in inner steps and in the repair: color, crop, cutout, flip, scale or rotate."""
    rate: Annotated[float, Field(ge=1e-6)] = 0.04
    """eta: the initial inner learning rate, for a cross-entropy that is divided by the number of
    classes."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """What updates images, labels and eta; "sgd" has momentum 0.5 and needs larger learning
    rates."""
    lr_images: Rate = 0.05
    """The learning rate of X."""
    lr_labels: Annotated[float, Field(ge=0)] = 0.01
    """The learning rate of the labels' logits; 0 leaves them uniform."""
    lr_rate: Annotated[float, Field(ge=0)] = 1e-5
    """The learning rate of eta; 0 keeps eta constant."""
    max_loss: Rate = 0.98
    """The mean of the last 100 matching losses must be below this; otherwise the set is discarded
    and the model is not repaired."""
    min_participants: Positive = 5
    """An average of fewer clients does not enter the path, because it could reveal their data;
    synthesis then waits for another round."""
    same_round: bool = True
    """Repair the average of the synthesis round already; False begins one round later, as algorithm
    2 does."""
    epochs: Annotated[int, Field(ge=0)] = 20
    """Passes over the set per repair; 0 gives FedAvg. The code uses 15 for CIFAR-10 with alpha
    0.16, and 8 for CIFAR-100."""
    lr: Rate = 1e-4
    """Adam's learning rate in the repair; the code uses 2.5e-4 for CINIC-10."""
    batch: Positive = 256
    """Images per step of the repair."""
    source: Literal["synthetic", "noise", "permuted"] = "synthetic"
    """What the repair trains on: the set, or one of two controls with the same labels: the noise
    that the set began as, or the set with its labels permuted."""
    resynthesise: Annotated[int, Field(ge=0)] = 0
    """Learn another set after this many further averages (before their repair), also from the older
    paths; 0 never does."""

    def acts_from(self, config: RunConfig) -> int:
        """The round that completes the path, or the one after it.

        A path has at least two checkpoints. A warm start continues its parent's path if the parent
        kept its models.
        """
        first, averages = first_round(config), max(self.length, 1 if self.initial else 2)
        kept = Path(config.warm_start.partition("@")[0]) / "models"
        inherits = bool(config.warm_start) and kept.is_dir()
        complete = max(first, averages) if inherits else first - 1 + averages
        return complete + (not self.same_round)

    def check(self, config: RunConfig) -> list[str]:
        """If all rounds have too few clients, synthesis would never begin."""
        if config.drawn < self.min_participants:
            return [
                f"methods: dynafed(min_participants={self.min_participants}) learns from averages"
                f" of at least that many clients, but clients={config.clients} with"
                f" participation={config.participation:g} gives {config.drawn} per round; raise one"
                " of them, or lower min_participants if the server may learn about single clients"
            ]
        return []
