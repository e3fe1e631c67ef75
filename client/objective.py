"""What a method's client half is: terms in the local objective, and what it does before and after
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor

from common.learning.task import Task
from common.memory import Memory
from common.methods import Method
from common.models import Model
from common.models.base import LAST
from common.seeds import torch_generator
from common.settings.config import RunConfig
from common.wire.payload import Array, Arrays, Sections
from common.wire.sharing import shared_positions
from common.wire.weights import names

if TYPE_CHECKING:
    from client.data import LocalData

M = TypeVar("M", bound=Method)


@dataclass
class LocalRound:
    """All that a method may know of the round on this client."""

    number: int  # counted from 1
    partition: int
    config: RunConfig
    model: Model  # starts as the received weights, and is trained in place
    reference: dict[
        str, Tensor
    ]  # name -> weight as the round began, for trainable parameters; never changed
    data: LocalData
    received: Sections  # what came beside `shared`
    memory: Memory
    task: Task
    classes: int
    device: torch.device
    lr: float
    broadcast: Arrays = field(default_factory=list)  # `shared` as it came
    class_names: tuple[str, ...] = ()
    images: Path | None = None  # where pictures of virtual data go, if they are wanted
    steps: int = 0  # made in this round, once training is over
    samples: int = 0  # of its data that those steps looked at, repeats counted
    report: dict[str, float] = field(default_factory=dict)  # named figures for results.jsonl

    def generator(self, purpose: str) -> torch.Generator:
        """Randomness for one purpose: depends on seed, purpose, round and partition, and on nothing
        that ran before."""
        return torch_generator(self.config.seed, purpose, self.number, self.partition)

    def trainable(self) -> list[Tensor]:
        """The parameters that the optimiser moves."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def shared_reference(self) -> dict[str, Tensor]:
        """Of `reference`, the weights that cross the wire: all of them unless a method shares a
        part."""
        every = names(self.model)
        shared = {every[position] for position in shared_positions(every, self.config.method_list)}
        return {name: value for name, value in self.reference.items() if name in shared}


class Step:
    """One batch: what goes in, and, once `forward` has run, features and logits of the real part
    and of every extra part."""

    def __init__(self, local: LocalRound, number: int, images: Tensor, labels: Tensor) -> None:
        self.local, self.number = local, number
        self.images, self.labels = images, labels
        self.extra_images: dict[str, Tensor] = {}
        self.stages: set[str] = set()  # of the model, whose maps somebody looks at
        self.loss: Tensor  # of the last evaluation, without its graph
        self.features: Tensor
        self.logits: Tensor
        self.extra_features: dict[str, Tensor] = {}
        self.extra_logits: dict[str, Tensor] = {}
        self.maps: dict[str, Tensor] = {}  # stage -> map of the real batch
        self.extra_maps: dict[
            str, dict[str, Tensor]
        ] = {}  # stage -> method -> map of its extra images

    def forward(self) -> None:
        """One pass of the real batch and all extra images together, so that BatchNorm sees one
        batch."""
        model = self.local.model
        parts = [self.images, *self.extra_images.values()]
        images = torch.cat(parts) if len(parts) > 1 else self.images
        maps = model.feature_maps(images) if self.stages else {LAST: model.features(images)}
        features, sizes = maps[LAST], [len(part) for part in parts]
        self.features, *extra = features.split(sizes)
        self.logits, *extra_logits = model.classifier(features).split(sizes)
        self.extra_features = dict(zip(self.extra_images, extra, strict=True))
        self.extra_logits = dict(zip(self.extra_images, extra_logits, strict=True))
        for stage in self.stages:
            self.maps[stage], *extra = maps[stage].split(sizes)
            self.extra_maps[stage] = dict(zip(self.extra_images, extra, strict=True))


class Objective(Generic[M]):
    """A method's client half. Override what the method needs; the defaults add nothing to
    FedAvg."""

    task_weight: float = 1.0  # scales the loss on real data, and nothing else
    stages: tuple[str, ...] = ()  # of the model, whose maps `terms` looks at

    def __init__(self, params: M) -> None:
        self.params = params

    def begin(self, local: LocalRound) -> None:
        """Before the first batch: synthesise, restore, replace the data."""

    def extra_images(self, step: Step) -> Tensor | None:
        """Images that must share one forward pass with the real batch."""
        return None

    def terms(self, step: Step) -> dict[str, Tensor]:
        """Named, weighted additions to the loss of one batch."""
        return {}

    def gradients(self, step: Step, compute: Callable[[], None]) -> None:
        """Leave the gradients of this batch on the parameters; `compute` evaluates the loss and its
        gradients once."""
        compute()

    def at(self, step: Step) -> None:
        """Between two batches, after the optimiser's step."""

    def end(self, local: LocalRound) -> Sections:
        """After the last batch: remember, and hand over what is sent beside `shared`."""
        return {}

    def share(self, local: LocalRound, shared: dict[str, Array]) -> dict[str, Array]:
        """What is sent as `shared`, by name, where that is not simply the trained weights."""
        return shared
