"""VHL: all clients share one labelled set of noise, and pull the features of real samples towards
the noise of their label.

Tang, Zhang, Shi, He, Han, Chu: Virtual Homogeneity Learning: Defending against Data Heterogeneity
in Federated Learning, ICML 2022.

One round
    server -> client   the global model, whose head has C + C_v outputs; once, the virtual set x~,
                       y~ that the server made
    client             one pass of a real and a virtual batch together: features z, z~, logits r(z),
                       r(z~); steps along CE(r(z), y) + a CE(r(z~), y~ + C) + lam S([z; z~ held
                       fixed], [y; y~]) + b S(z~, y~)  (eq. 4)
    client -> server   its model, and the number of its real samples
    server             averages

S is the supervised contrastive loss. Virtual class c has nothing to do with real class c: they are
paired by their number alone.
Sections: `virtual` goes down: always the set's SHA-256; the set itself (or, with send="seed", a
seed) to clients that are not known to hold it. Who answers holds it; who was silent, failed, or
came back as another node gets it again. Remembered: the set ("vhl.virtual"). Beside VHL, what other
methods generate is of the real classes only.
Results: `accuracy` is over all outputs, `accuracy_real_classes` over the first C;
`virtual_accuracy` is the global model's on the virtual set. A step whose loss is not finite is left
out and counted.
Differs from the paper: 8-bit images without JPEG, because a set that is sent or made anew must be
the same everywhere.
Differs from the code: the learning rate decays by round and not by a client's own visits,
optimisers start afresh in every round, and virtual pixels are never doubled, because all methods
here are compared under the same training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from common.errors import ConfigurationError
from common.method import Method, Section

if TYPE_CHECKING:
    from common.settings.config import RunConfig

# the section down: digest; then, where the client does not hold it, the set or its seed
VIRTUAL = "virtual"
REMEMBERED = "vhl.virtual"  # the set in a client's memory


class Vhl(Method):
    """a = lam = b = 0 gives FedAvg with the wider head: no virtual image is looked at then."""

    name: ClassVar[str] = "vhl"
    title: ClassVar[str] = (
        "Virtual Homogeneity Learning: Defending against Data Heterogeneity in Federated Learning"
    )
    authors: ClassVar[str] = "Tang et al., ICML 2022"
    link: ClassVar[str] = "https://arxiv.org/abs/2206.02465"
    figures: ClassVar[tuple[str, ...]] = (
        "term.virtual",
        "term.alignment",
        "term.virtual_contrast",
        "vhl.skipped_steps",
        "vhl.virtual_train_accuracy",
    )

    single_label_because: ClassVar[str] = (
        "a virtual sample is paired with the real ones of its one class"
    )
    down: ClassVar[tuple[Section, ...]] = (Section(VIRTUAL),)

    variant: Literal["vhl", "naive", "vfa", "vftl"] = "vhl"
    """The method, or a control of section 5.4: "naive" has no contrast (lam = b = 0); "vfa" aligns
    with fixed random features instead of images, and leaves the head as it is; "vftl" pre-trains
    the body on the set at the server, then runs without it."""
    a: Annotated[float, Field(ge=0)] = 1.0
    """The weight of the virtual samples' cross-entropy; 0 leaves their outputs untrained."""
    lam: Annotated[float, Field(ge=0)] = 1.0
    """lambda: the weight of the alignment of real with virtual features; 0 is naive VHL. Above 2 it
    may be unstable (clip)."""
    b: Annotated[float, Field(ge=0)] = 0.1
    """The weight of the contrast among virtual features, which only the code has; 0 is the paper's
    text."""
    temperature: Annotated[float, Field(gt=0)] = 0.07
    """T: divides the cosines of the contrast; the smaller, the more the nearest rows count."""
    align_epochs: Annotated[int, Field(ge=0)] = 5
    """Real features are aligned in the first so many passes over a client's data in a round; 5 is
    the code's."""
    feature: Annotated[str, Field(pattern="^(last|stage[1-9])$")] = "last"
    """Which features are aligned: "last" before the classifier, or the flattened map after a stage
    of the model ("stage1")."""
    batch: Annotated[int, Field(ge=1)] | None = None
    """B_v: virtual samples in a step; None takes as many as a real batch has (batch-size), as in
    the paper."""
    clip: Annotated[float, Field(ge=0)] = 0.0
    """The largest norm that a step's gradients may have, for large lam; 0 clips nothing, as in the
    paper."""
    generator: Literal["stylegan", "gaussian", "simple_cnn", "dataset"] = "stylegan"
    """What the set is made of: an untrained StyleGAN-v2, upsampled Gaussian noise, one untrained
    network a class, real data."""
    dataset: str = ""
    """The labelled set of generator="dataset", as a --dataset line; its first C_v classes are
    used."""
    per_class: Annotated[int, Field(ge=1)] = 200
    """Images of every virtual class; the paper does not say how many."""
    virtual_classes: Annotated[int, Field(ge=2)] | None = None
    """C_v; None is C, one partner for every class. Of more, the first C are partners; fewer are
    refused unless lam is 0."""
    width: Annotated[int, Field(ge=1, le=1024)] = 64
    """Channels of the generating networks; StyleGAN-v2 has 512, which gives images that are as
    separable."""
    noise_gain: Annotated[float, Field(ge=0)] = 0.0
    """How strongly StyleGAN's per-pixel noise, whose means depend on the class, enters; 1 is the
    paper's text, 0 its code."""
    shuffle_labels: bool = False
    """Deal the labels at random over the images: a control that nothing can be learned from."""
    normalise: Literal["own", "real"] = "own"
    """Virtual pixels in [0, 1] as (x - 0.5) / 0.25, as in the code whatever the real data, or as
    the real data are."""
    augment: Literal["none", "crop", "flip", "crop-flip", "crop-flip-cutout"] = "crop-flip"
    """How virtual images are varied in training."""
    send: Literal["images", "seed"] = "images"
    """What a client that lacks the set gets: its bytes, or a seed to make it from, which must give
    the same SHA-256."""
    spread: Annotated[float, Field(ge=0)] = 0.05
    """The standard deviation of "vfa" features round their class mean, which is uniform in [0,
    1)."""
    pretrain_epochs: Annotated[int, Field(ge=0)] = 5
    """Passes over the set in "vftl"; it ends sooner at 99 % training accuracy. 0 gives FedAvg."""

    @model_validator(mode="before")
    @classmethod
    def _of_variant(cls, given: dict[str, Any]) -> dict[str, Any]:
        """A variant sets the weights that make it what it is."""
        off = {"naive": ("lam", "b"), "vfa": ("a", "b"), "vftl": ("a", "lam", "b")}.get(
            given.get("variant", "vhl"), ()
        )
        return {**dict.fromkeys(off, 0.0), **given}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        off = {"naive": ("lam", "b"), "vfa": ("a", "b"), "vftl": ("a", "lam", "b")}.get(
            self.variant, ()
        )
        if weighed := [name for name in off if getattr(self, name)]:
            raise ValueError(
                f"variant={self.variant!r} has no {' and no '.join(weighed)}; leave them out, or"
                " write variant='vhl'"
            )
        if (self.generator == "dataset") != bool(self.dataset):
            raise ValueError(
                "generator='dataset' and dataset='...' belong together; write both or neither"
            )
        return self

    @property
    def trains_on_images(self) -> bool:
        """Whether clients see virtual images at all."""
        return self.variant in ("vhl", "naive") and max(self.a, self.lam, self.b) > 0

    @property
    def sends(self) -> bool:
        """Whether clients need the set (or the means of virtual features)."""
        return self.trains_on_images or (self.variant == "vfa" and self.lam > 0)

    def count(self, classes: int) -> int:
        """C_v for C real classes."""
        return self.virtual_classes or classes

    def extra_outputs(self, classes: int) -> int:
        """The virtual classes have outputs of their own; refuses too few of them."""
        if self.count(classes) < classes and self.lam > 0:
            raise ConfigurationError(
                [
                    f"methods: vhl(virtual_classes={self.virtual_classes}), but the data have"
                    f" {classes} classes, and each needs a partner; leave virtual_classes out, or"
                    " write lam=0"
                ]
            )
        return self.count(classes) if self.variant in ("vhl", "naive") else 0

    def check(self, config: RunConfig) -> list[str]:
        """Virtual features without images have one mean for every class."""
        if self.variant == "vfa" and self.virtual_classes is not None:
            return [
                "methods: vhl(variant='vfa') has one mean for every real class; leave"
                " virtual_classes out"
            ]
        return []
