"""FedCOG: a client generates what its data lack, and stays close to the consensus in training.

Ye, Du, Ni, Wang, Chen: Fake It Till Make It: Federated Learning with Consensus-Oriented Generation,
ICLR 2024.

One round (from `start` on; before it, FedAvg)
    server -> client   the global model w
    client             labels y that complement its own; images x that minimise CE(w(x), y) +
                       lambda_dis (1 - JS(w(x), v(x))) for its own last model v (eqs. 1, 2); then
                       trains on w_real CE(real data) + w_kd KL(w(x) || w_i(x)) (eq. 3)
    client -> server   its model w_i, and the number of its real samples
    server             averages

Sections: none besides `shared`. Remembered: the last local model ("local.model"); the
images are thrown away. The paper counts rounds from 0: its 50 rounds of FedAvg
and 20 of FedCOG are here rounds 1 to 50 and 51 to 70. Beside VHL, whose head is wider, only the
real classes are generated and distilled.
Without pictures (appendix A.1.2): x are rows, signals or embeddings, normalised like the real ones.
The channels of a category are generated as a relaxation of one-hot: the softmax of what is learned.
Differs from the paper: labels are distributed by largest remainder, because rounding down loses a
quarter of them with 100 classes.
Differs from the code: images and logits are both those of the best step, because in the code the
images are those of the last step and do not belong to the logits.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fedmirage.common.method import NETWORK, Method, Parts, first_round
from fedmirage.common.settings.config import RunConfig

EARLY = 5  # the last round in which a global model has little to teach


class FedCog(Method):
    """Defaults are the paper's, with the automatic weights of its appendix A.3.2.

    The code has no other weights.
    """

    name: ClassVar[str] = "fedcog"
    title: ClassVar[str] = (
        "Fake It Till Make It: Federated Learning with Consensus-Oriented Generation"
    )
    authors: ClassVar[str] = "Ye et al., ICLR 2024"
    link: ClassVar[str] = "https://arxiv.org/abs/2312.05966"
    quick: ClassVar[dict[str, Any]] = {"start": 1, "samples": 6, "steps": 2}
    metrics: ClassVar[tuple[str, ...]] = (
        "term.distillation",
        "seconds.generation",
        "fedcog.samples",
        "fedcog.generation_loss",
        "fedcog.task_weight",
        "fedcog.absent_classes",
        "fedcog.partner_age",
    )

    renamed: ClassVar[dict[str, str]] = {"js": "disagreement", "shared": "same_images"}
    only_pictures: ClassVar[dict[str, Any]] = {"augment": False, "downsample": False}
    kernels: ClassVar[dict[str, Any]] = {"fast": False}
    placebo: ClassVar[dict[str, Any]] = {"source": "none"}
    begins_as_fedavg: ClassVar[bool] = True
    reads_local_model: ClassVar[bool] = True
    # The teacher must be the consensus of all clients.
    parts: ClassVar[Parts] = Parts(requires=NETWORK)

    start: Annotated[int, Field(ge=1)] = 51
    """S + 1: the first round with generation; a number beyond the last round gives FedAvg. Global
    models of the first rounds have nothing useful to teach."""
    stop: Annotated[int, Field(ge=1)] | None = None
    """The last round with generation; None means the end of the run."""
    source: Literal["pixels", "noise", "generator", "none"] = "pixels"
    """What x is: optimised pixels; the noise that they start from; the output of a network that is
    optimised together with its input; or nothing. With "none" only w_real remains: a control that
    separates the effect of the method from that of a smaller learning rate."""
    samples: Annotated[int, Field(ge=0)] = 256
    """N: the number of images; 0 gives FedAvg."""
    labels: Literal["complement", "uniform"] = "complement"
    """What the images show: mostly the classes that the client has least of (A.1.1), or all classes
    equally (section 4.1)."""
    steps: Annotated[int, Field(ge=0)] = 100
    """G: optimisation steps; 0 leaves noise. The code uses 500."""
    lr: Annotated[float, Field(gt=0)] = 0.01
    """Adam's learning rate for x."""
    lambda_dis: Annotated[float, Field(ge=0)] = 0.1
    """lambda_dis: the weight of the disagreement; with 0 only the global model counts, as on a
    client's first visit."""
    disagreement: Literal["paper", "code"] = "paper"
    """How the disagreement is measured: by JS as in eq. 2, which is at most ln 2, or by the code's
    clamped version, which has no gradient beyond 1."""
    lambda_bn: Annotated[float, Field(ge=0)] = 0.0
    """The weight of the distance between the images' statistics and BatchNorm's running statistics;
    the code uses 0."""
    augment: bool = False
    """Show x to the models through a random crop and flip in every step of the optimisation."""
    downsample: bool = False
    """Show x to the models at half the resolution in the first half of the optimisation."""
    batch: Annotated[int, Field(ge=1)] | None = None
    """The number of images that are optimised at a time, for nodes with little memory (A.5.2); None
    takes all at once."""
    fast: bool = True
    """Run both models as one network with convolutions made for images: with simple-cnn, 2.0 times
    as fast on grey images and 1.5 times on coloured ones. False runs them one after the other, as
    networks of other forms always do. Both give the same numbers, up to rounding."""
    regenerate: bool = False
    """Make the images again after half of the local steps, against the half-trained model."""
    same_images: bool = False
    """All clients make the same images, as the convergence proof (A.2) assumes: uniform labels, no
    disagreement, one seed."""
    supervision: Literal["soft", "hard"] = "soft"
    """Learn the global model's logits of x, or the labels that x was made for."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """T: divides the logits of both models before they are compared, in generation and in
    distillation."""
    kd_weight: Literal["auto", "fixed"] = "auto"
    """With "auto", w_real = |d| / (C max d) for class counts d, and w_kd = 1 - w_real (A.3.2); with
    "fixed", w_real = 1 and w_kd = lambda_kd (eq. 3)."""
    lambda_kd: Annotated[float, Field(ge=0)] = 0.01
    """lambda_kd: the fixed weight of the distillation; 0 gives FedAvg. Used with kd_weight="fixed"
    only."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.stop is not None and self.stop < self.start:
            raise ValueError(
                f"stop={self.stop} lies before start={self.start}; write a later round, or None"
            )
        return self

    def acts_in(self, round_number: int) -> bool:
        """Whether a round, counted from 1, is one of FedCOG's."""
        return self.start <= round_number and (self.stop is None or round_number <= self.stop)

    def acts_from(self, config: RunConfig) -> int:
        """Before `start`, rounds are FedAvg's."""
        return max(self.start, first_round(config))

    def check(self, config: RunConfig) -> list[str]:
        """The BatchNorm term needs a model with BatchNorm, and a generator draws pictures."""
        norm = getattr(config.model_params, "norm", "none")
        problems = []
        if self.source == "generator" and not config.pictures:
            problems.append(
                "methods: fedcog(source='generator') draws pictures, and"
                f" dataset={config.dataset!r} holds none; write source='pixels'"
            )
        if self.lambda_bn and norm not in ("batch", "unknown"):
            problems += [
                f"methods: fedcog(lambda_bn={self.lambda_bn:g}) compares BatchNorm's statistics,"
                f" but model={config.model!r} has none; write lambda_bn=0 or take a model with"
                " batch norm"
            ]
        return problems

    def cautions(self, config: RunConfig) -> list[str]:
        """Warn of a start that is too early to help or too late to happen, and of an early stop."""
        if late := super().cautions(config):
            return late
        if self.stop is not None and self.stop < first_round(config):
            return [
                f"methods: fedcog(stop={self.stop}), but warm-start={config.warm_start!r} goes on"
                f" with round {first_round(config)}, so it never acts; write a later stop, or None"
            ]
        if self.start <= EARLY and self.source != "none":
            return [
                f"methods: fedcog(start={self.start}) takes its images from a global model of"
                f" {self.start - 1} round{'' if self.start == 2 else 's'}, which knows little; the"
                " paper starts with round 51, and"
                f" from round {EARLY + 1} on there is no such warning"
            ]
        return []
