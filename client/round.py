"""A client, one round on it, and one step of its training: all that a method may know of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedmirage.common.device import in_32_bits
from fedmirage.common.learning.task import Task
from fedmirage.common.memory import Memory
from fedmirage.common.models.base import LAST, Model
from fedmirage.common.run import Run
from fedmirage.common.seeds import torch_generator
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.manifest import tensors_like
from fedmirage.common.wire.payload import Arrays, Sections

if TYPE_CHECKING:
    from fedmirage.client.data import LocalData

log = logging.getLogger("fedmirage")


@dataclass(kw_only=True)
class LocalClient:
    """All that a method may know about its client before any round."""

    partition: int
    run: Run
    data: LocalData
    images: Path | None = None  # the folder for pictures of virtual data, if they are wanted

    @property
    def config(self) -> RunConfig:
        """The settings of the run."""
        return self.run.config

    @property
    def task(self) -> Task:
        """What the run learns."""
        return self.run.task

    @property
    def classes(self) -> int:
        """The number of classes of the data; the head may be wider."""
        return self.run.classes

    @property
    def device(self) -> torch.device:
        """Where this client computes."""
        return self.run.device


@dataclass(kw_only=True)
class LocalRound(LocalClient):
    """All that a method may know about the round on this client."""

    number: int  # counted from 1
    model: Model  # starts as the received weights, and is trained in place
    received: Sections  # the sections that came besides `shared`
    memory: Memory
    lr: float
    broadcast: Arrays = field(default_factory=list)  # `shared` as it came
    steps: int = 0  # how many the round had; known once training is over
    samples: int = 0  # how many these steps looked at, repeats included
    report: dict[str, float] = field(default_factory=dict)  # named metrics for results.jsonl
    # name -> weight at the start of the round, for the parameters that are trained; never changes
    reference: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        trained = self.trained_parameters().items()
        self.reference = {name: value.detach().clone() for name, value in trained}

    def generator(self, purpose: str) -> torch.Generator:
        """Make a generator for one purpose.

        It depends on seed, purpose, round and partition, and on nothing that ran before.
        """
        return torch_generator(self.config.seed, purpose, self.number, self.partition)

    def trained_parameters(self) -> dict[str, Tensor]:
        """The parameters that the training loop's optimiser moves, by name."""
        return {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad and name.partition(".")[0] in self.run.parts.trains
        }

    def trainable(self) -> list[Tensor]:
        """The trained parameters without their names."""
        return list(self.trained_parameters().values())

    def restore(self, key: str) -> list[Tensor]:
        """Return what this run's memory has for each trained weight; at first, that is zero."""
        weights = self.trainable()
        remembered = None if self.memory.inherited else self.memory.get(key)
        if remembered is None:
            return [torch.zeros_like(weight) for weight in weights]
        return tensors_like(remembered, weights)

    def shared_reference(self) -> dict[str, Tensor]:
        """Return the trainable weights that cross the wire, as the server sent them.

        They may differ from `reference`: a part can be sent and not loaded, or not trained here.
        """
        weights = self.run.shared.weights
        like = [self.model.get_parameter(name) for name in weights.names]
        sent = tensors_like(weights.pick(self.broadcast, self.run.shared), like)
        return dict(zip(weights.names, sent, strict=True))

    def note(self, terms: Mapping[str, float], seconds: float) -> None:
        """Say in the node's own log what it did in this round."""
        log.info(
            "round %d of %d: %d steps on %d samples, %s, %.1f s",
            *(self.number, self.config.rounds, self.steps, self.samples),
            ", ".join(f"{name} loss {value:.4f}" for name, value in terms.items()) or "no loss",
            seconds,
        )


class Step:
    """One batch: its inputs and, after `forward`, the features and logits of all its parts.

    The parts are the real batch and the extra images of each method.
    """

    def __init__(self, local: LocalRound, number: int, images: Tensor, labels: Tensor) -> None:
        self.local, self.number = local, number
        self.images, self.labels = images, labels
        self.extra_images: dict[str, Tensor] = {}
        self.stages: set[str] = set()  # the stages of the model whose maps some method looks at
        self.loss: Tensor  # the last value, without its graph
        self.features: Tensor
        self.logits: Tensor
        self.extra_features: dict[str, Tensor] = {}
        self.extra_logits: dict[str, Tensor] = {}
        self.maps: dict[str, Tensor] = {}  # stage -> map of the real batch
        # stage -> method -> map of its extra images
        self.extra_maps: dict[str, dict[str, Tensor]] = {}

    def forward(self) -> None:
        """Pass the real batch and all extra images through together, as one batch for BatchNorm."""
        model = self.local.model
        parts = [self.images, *self.extra_images.values()]
        images = torch.cat(parts) if len(parts) > 1 else self.images
        maps = model.feature_maps(images) if self.stages else {LAST: model.features(images)}
        features, sizes = in_32_bits(maps[LAST]), [len(part) for part in parts]
        self.features, *extra = torch.split(features, sizes)
        self.logits, *extra_logits = torch.split(in_32_bits(model.classifier(features)), sizes)
        self.extra_features = dict(zip(self.extra_images, extra, strict=True))
        self.extra_logits = dict(zip(self.extra_images, extra_logits, strict=True))
        for stage in self.stages:
            self.maps[stage], *extra = torch.split(in_32_bits(maps[stage]), sizes)
            self.extra_maps[stage] = dict(zip(self.extra_images, extra, strict=True))
