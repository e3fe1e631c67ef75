"""FedLGD: clients train on images distilled from their data, anchored by global virtual images.

Huang, Jin, Zhao, Xu, Li: Federated Learning on Virtual Heterogeneous Data with Local-Global Dataset
Distillation, TMLR 2024.

One round
    server -> client   the global model theta, and the global virtual images G if the client does
                       not hold this version
    client             at first, distils its data into virtual images V (see `distil`); in later
                       distillation rounds, matches V's mean features to those of its real data once
                       more, now under theta; then trains on V and G together along CE + lambda
                       S([z; z_G], [y; y_G]) (eq. 3), with contrast_weight for lambda; the second
                       term is absent in distillation rounds
    client -> server   its model
    server             averages; in distillation rounds, moves the pixels of G until their gradient
                       at theta points where g = (theta - average) / lr does, row by row (eq. 5)

S is the supervised contrastive loss over the batch and all of G, whose features are computed anew
in every step and not held fixed.
Distillation rounds are `distil_from`, and `times` more, `gap` rounds apart: 1, 6, ..., 51. The
paper counts rounds from 0: 0, 5, ..., 50.
Sections: `global-images` goes down. It always has the SHA-256 of G; clients that are not known to
hold this version also get G itself. Nothing goes up beside the model. Remembered: V
("fedlgd.local") and G ("fedlgd.global"), in this run only: a warm start begins with the V of the
initial distillation, and with noise for G.
Left of a server rule, g is read off the plain average; right of it, off the rule's step. It stands
left of DynaFed, whose repaired model is the theta of the next round. Beside VHL, G has the real
classes only. BatchNorm uses its running statistics wherever pixels are learned, because those of a
batch of virtual images are themselves what is to be learned.
Differs from the paper: clients count equally in the average, because all have equally many virtual
images, and because the code does so.
Differs from the paper: g is read off the average, as in the code, because the gradient on V alone
would have to be sent as well.
Differs from the code: G begins as noise, as in the paper, because the code's start needs the class
statistics of every client.
Differs from the code: a client always starts from theta, because in the code one that was not drawn
in the last round starts from an older model.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedmirage.common.method import NETWORK, Parts, Place, Section, Weighting, first_round
from fedmirage.common.methods.distil.declaration import Distilling
from fedmirage.common.settings.config import RunConfig

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]

# The section down: the digest and, for clients that do not hold this version, images and labels.
GLOBAL = "global-images"
REMEMBERED_GLOBAL = "fedlgd.global"  # G in a client's memory, as it was received
REMEMBERED_LOCAL = "fedlgd.local"  # V in a client's memory: images and labels


class FedLgd(Distilling):
    """With times=0, train_on_global=False and contrast_weight=0 it is `distil`."""

    name: ClassVar[str] = "fedlgd"
    title: ClassVar[str] = (
        "Federated Learning on Virtual Heterogeneous Data with Local-Global Dataset Distillation"
    )
    authors: ClassVar[str] = "Huang et al., TMLR 2024"
    link: ClassVar[str] = "https://arxiv.org/abs/2303.02278"
    quick: ClassVar[dict[str, Any]] = {
        "per_class": 20,
        "steps": 1,
        "real_per_class": 4,
        "refresh_steps": 1,
        "global_per_class": 1,
        "global_steps": 1,
        "gap": 2,
        "min_participants": 1,
        "train_on_global": False,
    }
    metrics: ClassVar[tuple[str, ...]] = (
        "term.global_contrast",
        "fedlgd.local_images",
        "fedlgd.refresh_loss",
        "seconds.refresh",
    )

    parts: ClassVar[Parts] = Parts(requires=NETWORK)  # g covers every weight
    placebo: ClassVar[dict[str, Any]] = {"source": "noise"}
    place: ClassVar[Place] = Place.READS
    down: ClassVar[tuple[Section, ...]] = (Section(GLOBAL, holds=None),)
    renamed: ClassVar[dict[str, str]] = {"lam": "contrast_weight"}

    gap: Positive = 5
    """The number of rounds from one distillation round to the next."""
    times: Count = 10
    """How many distillation rounds follow the first one; each refreshes V and then G. The first one
    only learns G. The paper speaks of 10 in all, its code has 11."""
    distil_from: Positive = 1
    """The first distillation round. A warm start after round 50 needs 51."""
    refresh_steps: Count = 100
    """T_D^c: steps of distribution matching per refresh of V; 0 leaves V as the initial
    distillation made it."""
    global_steps: Count = 500
    """T_D^g: steps of gradient matching per distillation round; 0 leaves G at noise."""
    global_per_class: Positive = 10
    """Global images per class, which every client downloads after every distillation round."""
    distance: Literal["rows", "squared", "cosine"] = "rows"
    """What gradient matching minimises: the sum of 1 - cos over the rows of all matrices; or, over
    all weights as one vector, the squared or the cosine distance, which are options of the code."""
    contrast: Literal["supervised", "mmd"] = "supervised"
    """The term that draws local to global features: the supervised contrastive loss, or the maximum
    mean discrepancy, which ignores labels."""
    contrast_weight: Annotated[float, Field(ge=0)] = 10.0
    """lambda: the weight of this term; 0 leaves it out. The paper uses 10 for DIGITS, 1 for
    CIFAR10C and 0.1 for RETINA."""
    temperature: Annotated[float, Field(gt=0)] = 0.07
    """T: divides the cosines of the supervised contrast."""
    train_on_global: bool = True
    """Train on V and G together, as in eq. 3 and the code; with False on V alone, as in algorithm
    1, and then G is in the contrast only."""
    use_global_from: Positive = 1
    """The first round in which clients use G. As published it is the first of all, in which G is
    still noise; 2 skips that."""
    source: Literal["matched", "noise", "permuted"] = "matched"
    """What clients get as G: the learned images, or one of two controls: the noise that they began
    as, or the learned images with their labels permuted."""
    precision: Literal["half", "byte", "single"] = "half"
    """How G travels: in half precision, as bytes with a scale per channel, or as it is. Server and
    clients use the values that arrive."""
    min_participants: Positive = 3
    """With fewer clients in a distillation round, G stays as it is: to match the gradient of one
    client is to reconstruct that client's images."""
    client_weights: Literal["uniform", "examples"] = "uniform"
    """How clients count in the average: equally, as in the code, or by the number of images that
    they train on, which differ if some clients lack classes."""

    @property
    def needs_weighting(self) -> Weighting:
        """The run must weight its clients as this method says."""
        return self.client_weights

    @property
    def uses_global(self) -> bool:
        """Whether clients use global images at all."""
        return self.train_on_global or self.contrast_weight > 0

    @property
    def matches(self) -> bool:
        """Whether global images are learned."""
        return self.uses_global and self.source != "noise" and self.global_steps > 0

    @property
    def last_distillation(self) -> int:
        """The last distillation round."""
        return self.distil_from + self.times * self.gap

    def distils(self, round_number: int) -> bool:
        """Whether this is a distillation round (in tau)."""
        since = round_number - self.distil_from
        return 0 <= since <= self.times * self.gap and since % self.gap == 0

    def refreshes(self, round_number: int) -> bool:
        """Whether clients refresh V in this round; in the first distillation round it is new."""
        later = round_number > self.distil_from
        return self.refresh_steps > 0 and later and self.distils(round_number)

    def needs_server_data(self, config: RunConfig) -> str:
        """What a new model learns from the global images alone is measured on test samples."""
        measured = self.matches and config.diagnostics
        return "scores a model on the server's test set (diagnostics)" if measured else ""

    def check(self, config: RunConfig) -> list[str]:
        """If all rounds have too few clients, no global image would ever be learned."""
        if not self.matches or config.drawn >= self.min_participants:
            return []
        return [
            f"methods: fedlgd(min_participants={self.min_participants}) learns its global images"
            f" from averages of at least that many clients, but clients={config.clients} with"
            f" participation={config.participation:g} gives {config.drawn} per round; raise one of"
            " them, or lower min_participants if the server may learn about single clients"
        ]

    def cautions(self, config: RunConfig) -> list[str]:
        """Find a run whose rounds are all outside the schedule, so that G stays noise."""
        found, first = super().cautions(config), first_round(config)
        if self.matches and not any(map(self.distils, range(first, config.rounds + 1))):
            found.append(
                f"methods: fedlgd learns global images from round {self.distil_from} to round"
                f" {self.last_distillation}, but this run has rounds {first} to {config.rounds}:"
                f" they stay noise; write distil_from={first}"
            )
        return found
