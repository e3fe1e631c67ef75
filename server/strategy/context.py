"""What a server half may know of its surroundings: the run that it is part of, or, in somebody
else's Flower app, what that app's author told it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from logging import INFO
from pathlib import Path
from typing import Protocol

import torch
from flwr.common import log
from torch import nn

from common.errors import FedmirageError
from common.method import Weighting
from common.models import build
from common.run import Run
from common.seeds import derive
from common.settings.config import RunConfig, configure
from common.wire.manifest import Manifest
from common.wire.payload import Arrays
from server.record.scores import Evaluator


class Note(Protocol):
    """Takes what a server half has to say: a decision that whoever reads the numbers must know, or
    only how far it has come (`progress`)."""

    def __call__(self, round_number: int, text: str, progress: bool = False) -> None: ...


def log_note(round_number: int, text: str, progress: bool = False) -> None:
    """Where nobody watches results.jsonl, Flower's log says it."""
    log(INFO, "round %s: %s", round_number, text)


@dataclass(frozen=True)
class ServerContext:
    """The surroundings of a server half in a run of this project."""

    run: Run
    evaluator: Evaluator
    folder: Path | None = None  # where the run writes
    note: Note = log_note

    @property
    def config(self) -> RunConfig:
        """The settings of the run."""
        return self.run.config

    @property
    def weighting(self) -> Weighting:
        """How `shared` is averaged."""
        return self.run.config.weighs

    @property
    def device(self) -> torch.device:
        """Where the server computes."""
        return self.run.device

    @property
    def shape(self) -> Sequence[int]:
        """Of the model's input."""
        return self.run.shape

    @property
    def classes(self) -> int:
        """Of the data; the head may be wider."""
        return self.run.classes

    @property
    def model(self) -> nn.Module:
        """The model that the clients train, with whatever weights it was last scored with."""
        return self.evaluator.model

    def build_narrow_model(self) -> nn.Module:
        """The same network with outputs for the classes of the data alone."""
        run, seed = self.run, derive(self.config.seed, "model")
        return build(self.config.model_params, run.shape, run.classes, 0, seed).to(self.device)

    def describe(self, arrays: Arrays) -> Manifest:
        """What the exchanged arrays are."""
        return self.run.shared


@dataclass(frozen=True)
class StandAlone:
    """The surroundings of a server half in somebody else's Flower app: every exchanged array is
    trainable, clients weigh by examples, notes go to Flower's log."""

    network: nn.Module | None = None  # that the clients train, for methods that train it too
    shape: Sequence[int] = ()  # of its input, without the batch
    seed: int = 0
    folder: Path | None = None
    weighting: Weighting = "examples"
    note: Note = log_note

    @cached_property
    def config(self) -> RunConfig:
        """The defaults, with this seed."""
        return configure({"seed": self.seed})

    @property
    def model(self) -> nn.Module:
        """The network, which must have been given."""
        if self.network is None or not self.shape:
            raise FedmirageError(
                "this strategy trains a network itself: give it model=net and shape=(channels,"
                " height, width)"
            )
        return self.network

    @property
    def device(self) -> torch.device:
        """Where the network lies."""
        return next(self.model.parameters()).device

    @cached_property
    def classes(self) -> int:
        """The outputs of the network."""
        training = self.model.training
        with torch.no_grad():
            outputs = self.model.eval()(torch.zeros(1, *self.shape, device=self.device)).shape[1]
        self.model.train(training)
        return int(outputs)

    def build_narrow_model(self) -> nn.Module:
        """The network itself has no outputs beside those of the classes."""
        return self.model

    def describe(self, arrays: Arrays) -> Manifest:
        """Nothing is known of the arrays but themselves."""
        return Manifest.anonymous(arrays)
