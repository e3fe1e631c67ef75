"""FedGen: the server learns a generator of features on which all clients' classifiers agree.

Zhu, Hong, Zhou: Data-Free Knowledge Distillation for Heterogeneous Federated Learning, ICML 2021.

One round
    server -> client   the model, the generator G (from the second round on), and p(y), from which
                       labels of generated features are drawn
    client             trains on CE(h_i(f_i(x)), y) + alpha_r (b_g / b) CE(h_i(G(z', y')), y') +
                       beta_r KL(h_i(G(z, y)) || h_i(f_i(x))), with y' from p(y) and the classifier
                       h_i on the extractor f_i
    client -> server   its model, and how many samples it has of each class
    server             averages, then trains G on sum_i tau_{i,y} CE(h_i(G(z, y)), y) + eta L_div,
                       where tau is the share of client i in all samples of class y

With share="classifier" the extractor stays on the client, as in FedMD-CG's tables; there is no
global model then, so results have no `accuracy` and the local models are scored under names of
their own. Sections: `generator` and `label-shares` go down, `label-counts` goes up. Remembered:
nothing beside the local model. Beside VHL, whose head is wider, only the real classes count.
Differs from the paper: the server adds up the losses of the clients' classifiers, weighted by
label, and clients have the term with beta, because the code does so; the text takes the loss of the
mean logits (eq. 4) and has no such term (eq. 5).
Differs from the code: alpha and beta are 1 and stay, because with the code's 10 training diverges
at learning rates above its 0.01; and noise is normal as in the text, because the code's comment
says so too, but its draw is uniform. variant="code" has the code's values.
Differs from the code: clients count their samples once and exactly, because counts of drawn batches
only approach that; and G learns after the average, because a term may ask for the new classifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedmirage.common.method import CLASSIFIER, Method, Parts, Section, first_round
from fedmirage.common.methods._labels import LABEL_COUNTS, LABEL_SHARES

if TYPE_CHECKING:
    from fedmirage.common.models.generators import FeatureGenerator
    from fedmirage.common.settings.config import RunConfig

GENERATOR = "generator"

Weight = Annotated[float, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]

VARIANTS: dict[str, dict[str, Any]] = {
    "code": {
        "classification_weight": 10.0,
        "logit_weight": 10.0,
        "decay": 0.98,
        "generator_lr_decay": 0.98,
        "noise": "uniform",
    },
    "fedmd-cg": {
        "share": "classifier",
        "temperature": 10.0,
        "labels": "shares",
        "generated_batch": 64,
        "generator_steps": 20,
        "student_weight": 1.0,
        "diversity": "squared",
        "hidden": (512, 256),
        "noise": "uniform",
        "noise_dim": 128,
    },
}


class FedGen(Method):
    """Both client weights 0 give FedAvg, and with share="classifier" LG-FedAvg."""

    name: ClassVar[str] = "fedgen"
    title: ClassVar[str] = "Data-Free Knowledge Distillation for Heterogeneous Federated Learning"
    authors: ClassVar[str] = "Zhu et al., ICML 2021"
    link: ClassVar[str] = "https://arxiv.org/abs/2105.10056"
    quick: ClassVar[dict[str, Any]] = {"generator_steps": 2, "hidden": (4,), "noise_dim": 2}
    variants: ClassVar[dict[str, dict[str, Any]]] = VARIANTS
    metrics: ClassVar[tuple[str, ...]] = ("term.generated.classification", "term.generated.logits")
    single_label_because: ClassVar[str] = "the generator makes features of one class"
    up: ClassVar[tuple[Section, ...]] = (LABEL_COUNTS,)
    down: ClassVar[tuple[Section, ...]] = (Section(GENERATOR, holds=None), LABEL_SHARES)

    variant: Literal["clean", "code", "fedmd-cg"] = "clean"
    """A set of values: "clean" has the defaults; "code" has those of FedGen's code for MNIST, which
    belong to lr=0.01; "fedmd-cg" has those with which FedMD-CG's tables compare. Keys that are
    written out win."""
    share: Literal["model", "classifier"] = "model"
    """What is averaged: the whole model, or the classifier alone, so every client keeps its
    extractor."""
    classification_weight: Weight = 1.0
    """alpha: the weight of the local classifier's loss on generated features of labels from p(y).
    The text has 1, the code 10."""
    logit_weight: Weight = 1.0
    """beta: the weight of the divergence between the local model's answers and its classifier's on
    generated features of the same label. The code has 10."""
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The factor by which alpha and beta shrink from round to round; the code has 0.98."""
    temperature: Rate = 1.0
    """T: divides logits before they are compared. There is no factor T^2."""
    labels: Literal["uniform", "shares"] = "uniform"
    """p(y): all classes that some client of the last round has alike, or in proportion to their
    samples."""
    generated_batch: Positive | None = None
    """b_g: the number of features that are generated at a time for labels from p(y), on either
    side; None means the run's batch size b."""
    generator_steps: Positive = 50
    """Steps per round in which the server trains G."""
    generator_lr: Rate = 3e-4
    """The learning rate of G's Adam in round 1; its moments stay from round to round."""
    generator_lr_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The factor by which that learning rate shrinks from round to round; the code has 0.98."""
    adam_weight_decay: Weight = 1e-2
    """Weight decay of G's Adam."""
    student_weight: Weight = 0.0
    """The weight of a reward for features on which the averaged classifier differs from the
    clients' mean logits: their divergence, mean over batch and classes, is subtracted. FedGen's
    code has it, but switched off; FedMD-CG's tables have 1."""
    diversity: Literal["absolute", "squared"] = "absolute"
    """How far two generated features lie apart in L_div: by the mean of the absolute differences,
    or, in FedMD-CG's tables, of their squares."""
    diversity_weight: Weight = 1.0
    """eta: the weight of the diversity; 0 lets G collapse to one feature vector per label."""
    hidden: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=8)] = (256,)
    """Widths of G's hidden layers."""
    noise: Literal["normal", "uniform"] = "normal"
    """What z is drawn from: N(0, 1), or [0, 1) as in the code."""
    noise_dim: Positive = 32
    """The number of components of z."""

    @property
    def parts(self) -> Parts:
        """Only share="classifier" chooses; beside lg-fedavg, share="model" shares its part too."""
        if self.share == "classifier":
            return Parts(sends=(CLASSIFIER,), requires=(CLASSIFIER,))
        return Parts(requires=(CLASSIFIER,))

    @property
    def needs_each_client(self) -> str:
        """Every classifier counts by its client's share in a label."""
        return "classifier and label counts"

    def generates(self, config: RunConfig) -> int:
        """b_g."""
        return self.generated_batch or config.batch_size

    def factor(self, round_number: int) -> float:
        """What alpha and beta are multiplied with in a round, counted from 1."""
        return float(self.decay ** (round_number - 1))

    def acts_from(self, config: RunConfig) -> int:
        """In the first round there is no generator yet."""
        return first_round(config) + (self.share == "model")

    def build_generator(self, classes: int, feature_dim: int) -> FeatureGenerator:
        """Build G; its weights depend on torch's generator."""
        from fedmirage.common.models.generators import FeatureGenerator

        return FeatureGenerator(self.noise_dim, classes, feature_dim, self.hidden)
