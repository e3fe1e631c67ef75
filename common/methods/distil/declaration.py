"""Distil: every client trains on a few virtual images per class, made once from its own data.

Huang, Jin, Zhao, Xu, Li: Federated Learning on Virtual Heterogeneous Data with Local-Global Dataset
Distillation, TMLR 2024: the initial stage of their FedLGD. The images are learned by distribution
matching (Zhao, Bilen: Dataset Condensation with Distribution Matching, WACV 2023).

One round
    server -> client   the model
    client             before its first round: learns virtual images whose mean features equal those
                       of its real images, class by class, for one random network after another;
                       then trains on the virtual images, and never on the real ones
    client -> server   its model, and the number of its virtual images
    server             averages

Sections: none besides `shared`; no image leaves its client. Remembered: the virtual images, in the
client's cache and not in the memory of a run, so all runs with the same data, seed, model and
parameters train on the very same images. FedLGD contains this stage.
Without pictures: virtual rows and signals are free numbers; the channels of a category need not add
up to 1.
Differs from the paper: 300 steps unless told otherwise, because the paper names no number and the
code's 10,000 take more than a day on two cores.
Differs from the code: the start from class statistics divides by the size of the class and not of
the whole client's set, because the code's division shrinks every mean by the share of the class.
Differs from the code: extractors are in evaluation mode, because a BatchNorm layer in training mode
would subtract the very means that are matched; models without BatchNorm do the same in both modes.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from fedmirage.common.method import Method
from fedmirage.common.settings.config import RunConfig

OPERATIONS = ("color", "crop", "cutout", "flip", "scale", "rotate")
COPIES = 2  # with so few real images per class, virtual ones can be copies of them


class Distilling(Method):
    """What a method declares that distils the clients' data before the first round.

    Its client half calls `prepare_virtual_set` and `virtual_set` of client/methods/distil.
    """

    replaces_data: ClassVar[bool] = True
    prepares: ClassVar[bool] = True
    single_label_because: ClassVar[str] = "a virtual image is made for one class"
    only_pictures: ClassVar[dict[str, Any]] = {"augment": ""}

    per_class: Annotated[int, Field(ge=1)] = 10
    """IPC: virtual images per class; a class with fewer real images gets only as many as it has,
    and an absent class none."""
    steps: Annotated[int, Field(ge=0)] = 300
    """Steps of the initial distribution matching, each with a new random network; 0 leaves the
    images as they start. The code uses 10,000."""
    start: Literal["class_stats", "noise", "real"] = "class_stats"
    """What the virtual images start from: noise with the mean and deviation of each channel in
    their class, standard normal noise, or real images of their class."""
    real_per_class: Annotated[int, Field(ge=1)] = 256
    """The number of real images per class that a step looks at, drawn without replacement; fewer
    are faster."""
    augment: str = "_".join(OPERATIONS)
    """The changes: each step draws one of them per class, the same for real and virtual images;
    joined by _, and "" for none. Leave out flip and rotate where they change what a picture means,
    as with digits."""
    pixel_lr: Annotated[float, Field(gt=0)] = 1.0
    """The learning rate of the pixels; it is halved whenever a step gives pixels that are not
    finite, and that step is undone."""
    pixel_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """The momentum of the pixels."""
    min_real_per_class: Annotated[int, Field(ge=1)] = COPIES
    """A class with fewer real images is left out, because its virtual images could be copies of
    them."""

    @field_validator("augment")
    @classmethod
    def _known(cls, augment: str) -> str:
        names = augment.split("_") if augment else []
        for name in names:
            if name not in OPERATIONS or names.count(name) > 1:
                raise ValueError(
                    f"{name!r} is unknown or listed twice; join some of"
                    f" {', '.join(OPERATIONS)} with _, for example 'color_crop'"
                )
        return augment

    @property
    def operations(self) -> tuple[str, ...]:
        """The names in `augment`."""
        return tuple(self.augment.split("_")) if self.augment else ()

    def cautions(self, config: RunConfig) -> list[str]:
        """Batch norm is not what the method was published with."""
        found = super().cautions(config)
        if getattr(config.model_params, "norm", "none") == "batch":
            found.append(
                f"methods: {self.name} compares features of networks whose batch norm does not"
                f" normalise yet (model={config.model!r}), which makes weaker virtual images; the"
                " published network is model='convnet', with instance norm"
            )
        return found


class Distil(Distilling):
    """steps=0 with start="real" trains on a few real images per class."""

    name: ClassVar[str] = "distil"
    title: ClassVar[str] = (
        "Federated Learning on Virtual Heterogeneous Data with Local-Global Dataset Distillation"
        " (its initial stage)"
    )
    authors: ClassVar[str] = "Huang et al., TMLR 2024"
    link: ClassVar[str] = "https://arxiv.org/abs/2303.02278"
    quick: ClassVar[dict[str, Any]] = {"per_class": 20, "steps": 2, "real_per_class": 8}
    metrics: ClassVar[tuple[str, ...]] = ("distil.loss",)
