"""FedMD-CG: clients share a generator of features and a classifier, and keep their extractor.

Luo, Wang, Li, Lan, Gao, Shu: Privacy-Preserving Federated Learning with Consistency via Knowledge
Distillation Using Conditional Generator, 2024.

One round
    server -> client   the generator G, the classifier D, and p(y), the labels of the federation
    client             puts D on its own extractor F_i and trains both on CE(D_i(F_i(x)), y) +
                       l1 CE(D_i(G(z, y')), y') + l2 |F_i(x) - G(z, y)|^2 + l3 KL(D_i(G(z, y)) ||
                       D_i(F_i(x))), y' from p(y) (eq. 4); then trains its own generator G_i on
                       KL(D_i(F_i(x)) || D_i(G_i(z, y))) + l4 |G_i(z, y) - F_i(x)|^2 +
                       l5 CE(D_i(G_i(z, y)), y) + l6 L_div (eq. 9)
    client -> server   G_i, D_i, and how many samples it has of each class; F_i stays
    server             averages the pairs, then trains the average to agree with every client's
                       pair, and each half of it with the other half of every client's (eq. 12)

Sections: `label-shares` goes down, `label-counts` goes up. Remembered: the whole local model with
F_i and G_i ("local.model"), the moments of G_i's Adam ("fedmd-cg.moments"), and with moving_average
the client's copy of G ("fedmd-cg.teacher"). A client without a memory starts with F_i and G_i of
the run's seed and says so: `fedmd-cg.joined_late` is 1 if it never took part before, and
`fedmd-cg.memory_lost` is 1 if it did. G never replaces G_i. In round 1, l1, l2 and l3 are 0.
There is no global model, so results have no `accuracy`; instead, the local models are scored under
names of their own, as for `local`. Beside VHL, whose head is wider, only the real classes count.
The defaults are those of variant="clean"; SGD's weight decay is a setting of the run (the paper's
text has 1e-4, its code 0).
Differs from the paper: the classifier has the code's two linear layers (model="lenet-bn") and not
three, because the text leaves their sizes open.
Differs from the paper: divergences have the teacher first, temperature 10 and no factor T^2, and
distances are means over the dimensions, all as in the code, because the diversity of the equations
underflows to 0: pairs of noises alone lie about 16 apart. variant="paper" is the literal text.
Differs from the paper: clients count their samples once and exactly, because counts of drawn
batches only approach that.
Differs from the code: p(y) goes to the clients, not the counts of every client, because the counts
are nobody else's business.
Differs from the code: a class that no client of a round has is left out of p(y), because nobody can
teach it; with smoothed counts its teachers would be clients that never saw it.
Differs from the code: G_i learns from as many new batches as F_i, because only a slip in the code
lets it learn from a growing cache of old ones; generator_batches="cached" does that too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedmirage.common.method import CLASSIFIER, Method, Parts, Place, Section, Shape
from fedmirage.common.methods._labels import LABEL_COUNTS, LABEL_SHARES

if TYPE_CHECKING:
    from torch import nn

GENERATOR = "generator"  # the part of the model that the method adds

Weight = Annotated[float, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]

VARIANTS: dict[str, dict[str, Any]] = {
    "code": {
        "feature_weight": 0.1,
        "ramp_power": 3.0,
        "ramp_completes": True,
        "noise": "uniform",
        "same_noise": False,
        "crossed_loss": "product",
        "count_smoothing": 1.0,
        "generator_batches": "cached",
    },
    "paper": {"divergence": "reverse", "temperature": 1.0, "distance": "norm"},
}
# The weights that are 0 with aggregation="ave_star".
OFF = ("classification_weight", "logit_weight")


class FedMdCg(Method):
    """With all weights 0 and aggregation="ave", classifiers and extractors are LG-FedAvg's."""

    name: ClassVar[str] = "fedmd-cg"
    title: ClassVar[str] = (
        "Privacy-Preserving Federated Learning with Consistency via Knowledge Distillation Using"
        " Conditional Generator"
    )
    authors: ClassVar[str] = "Luo et al., 2024"
    link: ClassVar[str] = "https://arxiv.org/abs/2409.06955"
    quick: ClassVar[dict[str, Any]] = {"server_steps": 2, "noise_dim": 4}
    variants: ClassVar[dict[str, dict[str, Any]]] = VARIANTS
    metrics: ClassVar[tuple[str, ...]] = (
        "term.generated.classification",
        "term.generated.features",
        "term.generated.logits",
        "term.generator.logits",
        "term.generator.features",
        "term.generator.classification",
        "term.generator.diversity",
        "fedmd-cg.joined_late",
        "fedmd-cg.memory_lost",
    )
    diagnostics: ClassVar[tuple[str, ...]] = ("fedmd-cg.generated_loss",)

    parts: ClassVar[Parts] = Parts(
        sends=(CLASSIFIER, GENERATOR), loads=(CLASSIFIER,), adds=(GENERATOR,)
    )
    single_label_because: ClassVar[str] = "the generator makes features of one class"
    placebo: ClassVar[dict[str, Any]] = {"source": "means"}
    place: ClassVar[Place] = Place.REPAIRS  # the averaged pair is trained once more
    up: ClassVar[tuple[Section, ...]] = (LABEL_COUNTS,)
    down: ClassVar[tuple[Section, ...]] = (LABEL_SHARES,)
    summable_instead: ClassVar[str] = "write fedmd-cg(aggregation='ave')"

    variant: Literal["clean", "code", "paper"] = "clean"
    """A set of values for the keys in which paper and code differ: "clean" has the defaults, "code"
    the values and slips of the published code, "paper" those of the text. Keys that are written out
    win."""
    aggregation: Literal["kdc", "kd", "ave", "ave_star"] = "kdc"
    """What the server makes of the pairs: "kdc" averages them and distils crosswise (eq. 12); "kd"
    averages and distils the mean of their logits, as FedCG does; "ave" only averages; "ave_star"
    only averages, and clients use neither l1 nor l3. The last two need sums only."""
    source: Literal["generator", "means"] = "generator"
    """What makes the features: the network, or, as a control, the mean features of each class,
    which every client computes over its own samples. The means take the generator's place
    everywhere; a class that a client lacks keeps the mean that it received. Nothing is learned from
    l4, l5 and l6 then, and noise has no effect."""
    classification_weight: Weight = 1.0
    """l1: the weight of the local classifier's loss on features that G makes of labels from
    p(y)."""
    feature_weight: Weight = 1.0
    """l2: the weight of the distance from the local features to G's of the same label. The code
    uses 0.1."""
    logit_weight: Weight = 1.0
    """l3: the weight of the divergence between the local model's answers and its classifier's on
    G's features of the same label."""
    ramp_power: Weight = 1.0
    """d: in round r of R, l1, l2 and l3 are multiplied by ((r - 1) / R)^d, because G has nothing to
    teach at first. The code uses 3; 0 gives full weights from round 2 on."""
    ramp_completes: bool = False
    """Divide by R - 1, as the code does, so the last round has the full weights."""
    generator_feature_weight: Weight = 1.0
    """l4: the weight of the distance from G_i's features to real ones of the same label."""
    generator_classification_weight: Weight = 1.0
    """l5: the weight of the local classifier's loss on G_i's features."""
    diversity: Literal["div0", "div1", "div2"] = "div2"
    """Which pairs of G_i's features are driven apart most: those whose noises differ (eq. 7),
    those whose noises and labels differ, or the former with a factor for other labels (eq. 8)."""
    diversity_weight: Weight = 1.0
    """l6: the weight of the diversity; 0 lets G_i collapse to one feature vector per label."""
    generator_lr: Rate = 3e-4
    """The learning rate of G_i's Adam, whose moments stay with the client."""
    generator_batches: Literal["fresh", "cached"] = "fresh"
    """What G_i learns from: as many new batches as the local model, or, as in the code, one pass
    over all batches of a fixed order that a client would have met since round 1, without those
    whose labels add up to the same number, with gradients that add up from batch to batch."""
    moving_average: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of a client's last copy of G in its new one; 0 takes the new G as it came. A client
    without a copy takes G as it came."""
    server_steps: Annotated[int, Field(ge=0)] = 50
    """Steps of distillation per round; 0 gives "ave"."""
    server_lr: Rate = 3e-4
    """The learning rate of the server's Adam, whose moments stay although each round brings another
    average."""
    adam_weight_decay: Weight = 1e-4
    """Weight decay of both Adams; that of the local model's SGD is the run's weight-decay."""
    generated_batch: Positive = 64
    """The number of features that are generated at a time for labels from p(y), on either side."""
    temperature: Rate = 10.0
    """T: divides logits before they are compared, but not while G_i learns. There is no factor T^2,
    so a large T makes l3 weak."""
    divergence: Literal["forward", "reverse"] = "forward"
    """The order of all divergences: KL(teacher || student), or KL(student || teacher) as in the
    text."""
    distance: Literal["mean", "norm"] = "mean"
    """How far features, noises and labels lie apart: means over the dimensions, or norms as in the
    text."""
    noise: Literal["normal", "uniform"] = "normal"
    """What z is drawn from: N(0, 1), or [0, 1) as in the code."""
    noise_dim: Positive = 128
    """The number of components of z."""
    same_noise: bool = True
    """All generators get the same z in a step of the server; in the code each draws its own."""
    crossed_loss: Literal["divergence", "product"] = "divergence"
    """How G is compared through the clients' classifiers: by a divergence as in eq. 11, or, as in
    the code, by minus the product of the two distributions."""
    count_smoothing: Weight = 0.0
    """Samples that every client is thought to have of each class in addition. At 0, a class that no
    client of a round has is not drawn; the code uses 1."""

    @model_validator(mode="before")
    @classmethod
    def _switch_off(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("aggregation") != "ave_star":
            return given
        return {**dict.fromkeys(OFF, 0.0), **given}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.aggregation == "ave_star" and (used := [key for key in OFF if getattr(self, key)]):
            raise ValueError(
                f"aggregation='ave_star' has no {' and no '.join(used)}; leave them out, or write"
                " aggregation='ave'"
            )
        return self

    @property
    def distils(self) -> bool:
        """Whether the server trains the averaged pair."""
        return self.aggregation in ("kdc", "kd") and self.server_steps > 0

    @property
    def needs_each_client(self) -> str:
        """Distillation compares with every single pair."""
        return "generator and classifier" if self.distils else ""

    @property
    def reverse(self) -> bool:
        """Whether the student stands first in divergences."""
        return self.divergence == "reverse"

    def ramp(self, round_number: int, rounds: int) -> float:
        """The factor of l1, l2 and l3 in a round, counted from 1; in round 1, G knows nothing."""
        done, all_of_them = round_number - 1, rounds - self.ramp_completes
        return float((done / all_of_them) ** self.ramp_power) if done else 0.0

    def build_parts(self, shape: Shape, classes: int, feature_dim: int) -> dict[str, nn.Module]:
        """The generator, or the means in its place."""
        from fedmirage.common.models.generators import FeatureGenerator, FeatureMeans

        kind = FeatureGenerator if self.source == "generator" else FeatureMeans
        return {GENERATOR: kind(self.noise_dim, classes, feature_dim)}
