"""FedCG: clients share a generator of features that learned from a discriminator, and a classifier.

Wu, Kang, Luo, He, Yang: FedCG: Leverage Conditional GAN for Protecting Privacy and Maintaining
Competitive Performance in Federated Learning, IJCAI 2022.

One round
    server -> client   the generator G and the classifier C
    client             puts C on its own extractor E_i and trains both on CE(C_i(E_i(x)), y) +
                       gamma_r |E_i(x) - G(z, y)|^2; then, starting from G, its generator G_i and
                       its own discriminator D_i in turn, D_i on -log D_i(E_i(x), y) -
                       log(1 - D_i(G_i(z, y), y)) and G_i on -log D_i(G_i(z, y), y)
    client -> server   G_i, C_i, and, if the server distils, how many samples it has of each class;
                       E_i and D_i stay
    server             averages the pairs, then trains the average to give the mean of the clients'
                       logits

Sections: `label-counts` goes up. Remembered: the whole local model with E_i and D_i
("local.model"), and the moments of both Adams ("fedcg.generator", "fedcg.discriminator"). A client
without a memory starts with E_i and D_i of the run's seed and says so: `fedcg.joined_late` is 1 if
it never took part before, and `fedcg.memory_lost` is 1 if it did. There is no global model, so
results have no `accuracy`; instead, the local models are scored under names of their own, as for
`local`. Beside VHL, whose head is wider, only the real classes count.
FedMD-CG's tables have FedCG with the settings of variant="fedmd-cg", and find it far better with
aggregation="ave" than as published.
Differs from the paper: the networks are those of FedMD-CG's tables (linear layers on flat features,
the generator without the last sigmoid), because they fit every model here.
Differs from the code: the server makes 50 steps per round and not 2,000, because more of them take
longer than the clients do; FedMD-CG's text has 50 too.
Differs from the code: noise and features are drawn and computed once for the steps of both D_i and
G_i, because G_i does not change in between.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedmirage.common.method import CLASSIFIER, Method, Parts, Place, Section, Shape
from fedmirage.common.methods._labels import LABEL_COUNTS

if TYPE_CHECKING:
    from torch import nn

    from fedmirage.common.settings.config import RunConfig

GENERATOR, DISCRIMINATOR = "generator", "discriminator"  # the parts that the method adds

Weight = Annotated[float, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]

VARIANTS: dict[str, dict[str, Any]] = {
    "fedmd-cg": {
        "ramp": "cubic",
        "discriminator": "plain",
        "adam_beta": 0.9,
        "adam_weight_decay": 1e-4,
        "server_steps": 20,
        "server_lr": 1e-3,
        "labels": "shares",
        "temperature": 10.0,
        "noise": "uniform",
        "noise_dim": 128,
    }
}


class FedCg(Method):
    """With feature_weight=0 and aggregation="ave", classifiers and extractors are LG-FedAvg's."""

    name: ClassVar[str] = "fedcg"
    title: ClassVar[str] = (
        "FedCG: Leverage Conditional GAN for Protecting Privacy and Maintaining Competitive"
        " Performance in Federated Learning"
    )
    authors: ClassVar[str] = "Wu et al., IJCAI 2022"
    link: ClassVar[str] = "https://arxiv.org/abs/2111.08211"
    quick: ClassVar[dict[str, Any]] = {"server_steps": 2, "noise_dim": 2}
    variants: ClassVar[dict[str, dict[str, Any]]] = VARIANTS
    metrics: ClassVar[tuple[str, ...]] = (
        "term.generated.features",
        "term.adversary.generator",
        "term.adversary.discriminator",
        "fedcg.joined_late",
        "fedcg.memory_lost",
    )
    diagnostics: ClassVar[tuple[str, ...]] = ("fedcg.generated_loss",)

    parts: ClassVar[Parts] = Parts(sends=(CLASSIFIER, GENERATOR), adds=(GENERATOR, DISCRIMINATOR))
    single_label_because: ClassVar[str] = "the generator makes features of one class"
    place: ClassVar[Place] = Place.REPAIRS  # the averaged pair is trained once more
    summable_instead: ClassVar[str] = "write fedcg(aggregation='ave')"
    # What FedMD-CG lets one choose: counts as they are, KL(teacher || student), one noise for all.
    count_smoothing: ClassVar[float] = 0.0
    reverse: ClassVar[bool] = False
    same_noise: ClassVar[bool] = True

    variant: Literal["clean", "fedmd-cg"] = "clean"
    """A set of values: "clean" has the defaults, those of FedCG's code where not stated otherwise;
    "fedmd-cg" has those with which FedMD-CG's tables compare. Keys that are written out win."""
    aggregation: Literal["kd", "kdc", "ave"] = "kd"
    """What the server makes of the pairs: "kd" averages them and distils the mean of their logits,
    as published; "kdc" averages and distils crosswise, as FedMD-CG does; "ave" only averages, and
    needs sums only. Clients learn from G's features alone, so "ave" is also what FedMD-CG's
    tables call AVE*."""
    feature_weight: Weight = 1.0
    """gamma: the weight of the distance from the local features to G's of the same label."""
    ramp: Literal["sigmoid", "cubic"] = "sigmoid"
    """How gamma grows from 0 in round 1, because G has nothing to teach at first: as
    2 / (1 + e^(-10 p)) - 1 with p = (r - 1) / 50, at most 1, or as ((r - 1) / (R - 1))^3 with the
    number of rounds R."""
    discriminator: Literal["conditional", "plain"] = "conditional"
    """What D_i sees: features and their label, with a hidden layer of LeakyReLU units, or the
    features alone, through two linear layers, like the classifier of FedMD-CG's network."""
    adversary_lr: Rate = 3e-4
    """The learning rate of the Adams of G_i and D_i, whose moments stay with the client."""
    adam_beta: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """How much these Adams keep of the mean gradient in a step; torch's default is 0.9."""
    adam_weight_decay: Weight = 0.0
    """Weight decay of all Adams; that of the local model's SGD is the run's weight-decay."""
    server_steps: Annotated[int, Field(ge=0)] = 50
    """Steps of distillation per round; 0 gives "ave"."""
    server_lr: Rate = 3e-4
    """The learning rate of the server's Adam, whose moments stay although each round brings another
    average."""
    labels: Literal["uniform", "shares"] = "uniform"
    """Labels for which the server generates features: all classes that some client of the round has
    alike, or in proportion to their samples."""
    generated_batch: Positive = 64
    """The number of features that the server generates at a time."""
    temperature: Rate = 1.0
    """T: divides logits before the server compares them. There is no factor T^2."""
    noise: Literal["normal", "uniform"] = "normal"
    """What z is drawn from: N(0, 1), or [0, 1) as in FedMD-CG's code."""
    noise_dim: Positive = 100
    """The number of components of z."""

    @property
    def distils(self) -> bool:
        """Whether the server trains the averaged pair."""
        return self.aggregation != "ave" and self.server_steps > 0

    @property
    def up(self) -> tuple[Section, ...]:
        """Only the server's distillation asks for labels."""
        return (LABEL_COUNTS,) if self.distils else ()

    @property
    def needs_each_client(self) -> str:
        """Distillation compares with every single pair."""
        return "generator and classifier" if self.distils else ""

    def check(self, config: RunConfig) -> list[str]:
        """Without label counts, the generator's statistics are still sent."""
        if not config.dp_params.active:
            return []
        return [
            f"dp: {self.name} shares a generator with batch norm, whose statistics no noise covers;"
            f" drop {self.name} or dp"
        ]

    def growth(self, round_number: int, rounds: int) -> float:
        """The factor of gamma in a round, counted from 1."""
        done = round_number - 1
        if self.ramp == "cubic":
            return float((done / (rounds - 1)) ** 3) if done else 0.0
        return 2 / (1 + math.exp(-10 * min(done / 50, 1.0))) - 1

    def build_parts(self, shape: Shape, classes: int, feature_dim: int) -> dict[str, nn.Module]:
        """The generator and the discriminator."""
        from fedmirage.common.models.generators import FeatureDiscriminator, FeatureGenerator

        seen = classes if self.discriminator == "conditional" else 0
        return {
            GENERATOR: FeatureGenerator(self.noise_dim, classes, feature_dim),
            DISCRIMINATOR: FeatureDiscriminator(feature_dim, seen),
        }
