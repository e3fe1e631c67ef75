"""VHL: clients share a labelled set of noise, and align real features with noise of their label.

Tang, Zhang, Shi, He, Han, Chu: Virtual Homogeneity Learning: Defending against Data Heterogeneity
in Federated Learning, ICML 2022.

One round
    server -> client   the global model, whose head has C + C_v outputs; once, the virtual set x~,
                       y~ that the server made
    client             one pass of a real and a virtual batch together: features z, z~, logits r(z),
                       r(z~); steps along CE(r(z), y) + a CE(r(z~), y~ + C) + lambda S([z; z~ held
                       fixed], [y; y~]) + b S(z~, y~)  (eq. 4, with virtual_weight for a,
                       alignment_weight for lambda and contrast_weight for b)
    client -> server   its model, and the number of its real samples
    server             averages

S is the supervised contrastive loss. Virtual class c has nothing to do with real class c: they are
paired by their number alone. With outputs="shared" a pair has one output: the head has C outputs,
and y~ is not shifted by C.
Sections: `virtual` goes down. It always has the set's SHA-256; clients that are not known to hold
the set also get the set itself (or, with send="seed", a seed). A client that answers holds it; one
that was silent, failed, or came back as another node gets it again. Remembered: the set
("vhl.virtual"). Beside VHL, other methods generate samples of the real classes only.
Results: `accuracy` and `loss` are over the first C outputs; if the head is wider,
`accuracy_all_outputs` is over all of them. `virtual_accuracy` is the global model's on the virtual
set, over all outputs. A step whose loss is not finite is left out and counted.
Without pictures: the virtual set is Gaussian noise around one random mean per class, in the shape
of the real inputs and as if it were normalised like them.
Differs from the paper: 8-bit images without JPEG, because a set that is sent or made anew must be
the same everywhere.
Differs from the code: the learning rate decays by round and not by a client's own visits,
optimisers start afresh in every round, and virtual pixels are never doubled, because all methods
here are compared under the same training. With outputs="shared" the code ("patch") shifts virtual
labels down by C in the contrast, so a real and a virtual row never are a pair there; here they are,
because aligning them is the method. paired=False gives the code's contrast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import Method, Section

if TYPE_CHECKING:
    from torch import Tensor

    from fedmirage.common.settings.config import RunConfig

# The weights that are 0 in a variant.
OFF = {
    "naive": ("alignment_weight", "contrast_weight"),
    "vfa": ("virtual_weight", "contrast_weight"),
    "vftl": ("virtual_weight", "alignment_weight", "contrast_weight"),
}
# The section down: the digest and, for clients that do not hold the set, the set or its seed.
VIRTUAL = "virtual"
REMEMBERED = "vhl.virtual"  # the set in a client's memory


class Vhl(Method):
    """With all three weights 0 it is FedAvg with the wider head, or FedAvg with outputs="shared".

    No virtual image is used then.
    """

    name: ClassVar[str] = "vhl"
    title: ClassVar[str] = (
        "Virtual Homogeneity Learning: Defending against Data Heterogeneity in Federated Learning"
    )
    authors: ClassVar[str] = "Tang et al., ICML 2022"
    link: ClassVar[str] = "https://arxiv.org/abs/2206.02465"
    quick: ClassVar[dict[str, Any]] = {"generator": "gaussian", "per_class": 2, "batch": 4}
    metrics: ClassVar[tuple[str, ...]] = (
        "term.virtual",
        "term.alignment",
        "term.virtual_contrast",
        "vhl.skipped_steps",
        "vhl.virtual_train_accuracy",
    )
    diagnostics: ClassVar[tuple[str, ...]] = ("vhl.feature_distance",)

    single_label_because: ClassVar[str] = (
        "a virtual sample is paired with the real ones of its one class"
    )
    only_pictures: ClassVar[dict[str, Any]] = {"generator": "gaussian", "augment": "none"}
    placebo: ClassVar[dict[str, Any]] = {"shuffle_labels": True}
    down: ClassVar[tuple[Section, ...]] = (Section(VIRTUAL, holds=None),)
    renamed: ClassVar[dict[str, str]] = {
        "lam": "alignment_weight",
        "a": "virtual_weight",
        "b": "contrast_weight",
        "clip": "max_gradient_norm",
    }

    variant: Literal["vhl", "naive", "vfa", "vftl"] = "vhl"
    """The method, or a control of section 5.4: "naive" has no contrast (alignment_weight and
    contrast_weight are 0); "vfa" aligns with random features instead of images, and leaves the head
    as it is; "vftl" pre-trains the body on the set at the server, then runs without the set."""
    outputs: Literal["own", "shared"] = "own"
    """Virtual classes have outputs of their own, as in the paper, or share those of the real
    classes with the same number, which is an option of the code."""
    paired: bool = True
    """Whether real and virtual rows of the same number attract each other in the alignment; False
    leaves only those of one kind, as the code does with shared outputs."""
    virtual_weight: Annotated[float, Field(ge=0)] = 1.0
    """The weight of the virtual samples' cross-entropy; 0 leaves their outputs untrained."""
    alignment_weight: Annotated[float, Field(ge=0)] = 1.0
    """lambda: the weight of the alignment of real with virtual features; 0 is naive VHL. Values
    above 2 may be unstable; then set max_gradient_norm."""
    contrast_weight: Annotated[float, Field(ge=0)] = 0.1
    """The weight of the contrast among virtual features, which only the code has; 0 is the paper's
    text."""
    temperature: Annotated[float, Field(gt=0)] = 0.07
    """T: divides the cosines of the contrast; with a smaller T the nearest features count more."""
    align_epochs: Annotated[int, Field(ge=0)] = 5
    """The number of passes over a client's data, from the start of every round, during which
    features are aligned (and virtual ones contrasted). The code uses 5."""
    feature: Annotated[str, Field(pattern="^(last|stage[1-9])$")] = "last"
    """Which features are aligned: "last" before the classifier, or the flattened map after a stage
    of the model ("stage1")."""
    batch: Annotated[int, Field(ge=1)] | None = None
    """B_v: virtual samples per step; None takes as many as a real batch has (batch-size), as in the
    paper."""
    max_gradient_norm: Annotated[float, Field(ge=0)] = 0.0
    """The largest norm that a step's gradients may have, for a large alignment_weight; 0 sets no
    limit, as in the paper."""
    generator: Literal["stylegan", "gaussian", "simple_cnn", "dataset"] = "stylegan"
    """What makes the set: an untrained StyleGAN-v2, upsampled Gaussian noise, one untrained network
    per class, or real data."""
    dataset: str = ""
    """The labelled set of generator="dataset", as a --dataset line; its first C_v classes are
    used."""
    per_class: Annotated[int, Field(ge=1)] = 200
    """Images per virtual class; the paper does not say how many."""
    virtual_classes: Annotated[int, Field(ge=2)] | None = None
    """C_v; None is C, one partner for every real class. If there are more, the first C are
    partners; fewer are refused unless alignment_weight is 0. With outputs="shared" it must be C."""
    width: Annotated[int, Field(ge=1, le=1024)] = 64
    """Channels of the generating networks. StyleGAN-v2 has 512, but its images are no easier to
    tell apart."""
    noise_gain: Annotated[float, Field(ge=0)] = 0.0
    """The strength of StyleGAN's per-pixel noise, whose means depend on the class; 1 is the paper's
    text, 0 its code."""
    shuffle_labels: bool = False
    """Assign the labels to the images at random: a control from which nothing can be learned."""
    normalise: Literal["own", "real"] = "own"
    """How virtual pixels x in [0, 1] are normalised: "own" is (x - 0.5) / 0.25 for any real data,
    as in the code; "real" is the same as for the real data."""
    augment: Literal["none", "crop", "flip", "crop-flip", "crop-flip-cutout"] = "crop-flip"
    """How virtual images are varied in training."""
    send: Literal["images", "seed"] = "images"
    """What a client that lacks the set gets: the images, or a seed to make them from, which must
    give the same SHA-256."""
    spread: Annotated[float, Field(ge=0)] = 0.05
    """The standard deviation of "vfa" features around their class means, which are uniform in [0,
    1)."""
    pretrain_epochs: Annotated[int, Field(ge=0)] = 5
    """Passes over the set in "vftl"; training stops early at 99 % training accuracy. 0 gives
    FedAvg."""

    @model_validator(mode="before")
    @classmethod
    def _of_variant(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Set the weights that a variant does without to 0, unless they are given."""
        return {**dict.fromkeys(OFF.get(given.get("variant", "vhl"), ()), 0.0), **given}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        off = OFF.get(self.variant, ())
        if weighed := [name for name in off if getattr(self, name)]:
            raise ValueError(
                f"variant={self.variant!r} has no {' and no '.join(weighed)}; leave them out, or"
                " write variant='vhl'"
            )
        if (self.generator == "dataset") != bool(self.dataset):
            raise ValueError(
                "generator='dataset' and dataset='...' belong together; write both or neither"
            )
        if self.outputs == "shared" and self.variant in ("vfa", "vftl"):
            raise ValueError(
                f"variant={self.variant!r} classifies no virtual samples with the run's model;"
                " leave outputs='shared' out"
            )
        return self

    @property
    def trains_on_images(self) -> bool:
        """Whether clients train on virtual images at all."""
        weights = (self.virtual_weight, self.alignment_weight, self.contrast_weight)
        return self.variant in ("vhl", "naive") and max(weights) > 0

    @property
    def sends(self) -> bool:
        """Whether clients need the set (or the means of virtual features)."""
        return self.trains_on_images or (self.variant == "vfa" and self.alignment_weight > 0)

    def count(self, classes: int) -> int:
        """C_v for C real classes."""
        return self.virtual_classes or classes

    def extra_outputs(self, classes: int) -> int:
        """Count the outputs for virtual classes, which may also share those of the real classes.

        Too few virtual classes, and any that would have no output to share, are refused.
        """
        if self.outputs == "shared" and self.count(classes) != classes:
            raise ConfigurationError(
                f"methods: vhl(outputs='shared', virtual_classes={self.virtual_classes}), but"
                f" the data have {classes} classes, and each output is shared by one real and"
                " one virtual class; leave virtual_classes out, or write outputs='own'"
            )
        if self.count(classes) < classes and self.alignment_weight > 0:
            raise ConfigurationError(
                f"methods: vhl(virtual_classes={self.virtual_classes}), but the data have"
                f" {classes} classes, and each needs a partner; leave virtual_classes out, or"
                " write alignment_weight=0"
            )
        own = self.outputs == "own" and self.variant in ("vhl", "naive")
        return self.count(classes) if own else 0

    def output_of(self, labels: Tensor, classes: int) -> Tensor:
        """The outputs of a model for C real classes that belong to these virtual labels."""
        return labels if self.outputs == "shared" else labels + classes

    def needs_server_data(self, config: RunConfig) -> str:
        """The set may be real data, and the distance of features is measured on test samples."""
        if self.generator == "dataset":
            return f"makes its virtual set of dataset={self.dataset!r}, which the server reads"
        compared = config.diagnostics and self.variant in ("vhl", "naive")
        return "compares features with the server's test samples (diagnostics)" if compared else ""

    def cautions(self, config: RunConfig) -> list[str]:
        """Pre-training changes the first model of a run, but a warm start brings its own."""
        if self.variant == "vftl" and config.warm_start:
            return [
                "methods: vhl(variant='vftl') pre-trains the model that a run begins with, but"
                f" warm-start={config.warm_start!r} brings one, so it never acts; drop one of them"
            ]
        return super().cautions(config)

    def check(self, config: RunConfig) -> list[str]:
        """Virtual features without images have exactly one mean per real class."""
        if self.variant == "vfa" and self.virtual_classes is not None:
            return [
                f"methods: vhl(variant='vfa', virtual_classes={self.virtual_classes}), but this"
                " variant has one mean per real class; leave virtual_classes out"
            ]
        return []
