"""What a server half may know of its surroundings.

That is the run that it is part of or, in somebody else's Flower app, what the app's author passed.
"""

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

from fedmirage.common.errors import FedmirageError
from fedmirage.common.method import Weighting
from fedmirage.common.models.beginning import begin_with, freeze
from fedmirage.common.models.factory import build
from fedmirage.common.run import Run
from fedmirage.common.seeds import derive
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.manifest import Manifest
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.record.scores import Evaluator


class Note(Protocol):
    """Takes a sentence from a server half for those who follow the run.

    It is a decision that readers of the numbers must know, or, with `progress`, only how far the
    half has come.
    """

    def __call__(self, round_number: int, text: str, progress: bool = False) -> None: ...


def log_note(round_number: int, text: str, progress: bool = False) -> None:
    """Write a note to Flower's log, where no results.jsonl takes it."""
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
        """The shape of the model's input."""
        return self.run.shape

    @property
    def classes(self) -> int:
        """The number of classes of the data; the head may be wider."""
        return self.run.classes

    @property
    def model(self) -> nn.Module:
        """The model that the clients train, with the weights that were last scored."""
        return self.evaluator.model

    def build_narrow_model(self) -> nn.Module:
        """Build the same network with outputs only for the classes of the data."""
        run, seed = self.run, derive(self.config.seed, "model")
        narrow = build(self.config.model_params, run.shape, run.classes, 0, seed)
        if self.config.freeze:
            if self.config.initial_weights:
                begin_with(narrow, self.config.initial_weights)
            freeze(narrow, self.config.freeze)
        return narrow.to(self.device)

    def describe(self, arrays: Arrays) -> Manifest:
        """Tell what the exchanged arrays are."""
        return self.run.shared


@dataclass(frozen=True)
class StandAlone:
    """The surroundings of a server half in somebody else's Flower app.

    Every exchanged array is trainable, clients are weighted by examples, and notes go to Flower's
    log.
    """

    network: nn.Module | None = None  # what the clients train; for methods that train it too
    shape: Sequence[int] = ()  # of the network's input, without the batch
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
        """The device that the network is on."""
        return next(self.model.parameters()).device

    @cached_property
    def classes(self) -> int:
        """The number of the network's outputs."""
        training = self.model.training
        with torch.no_grad():
            outputs = self.model.eval()(torch.zeros(1, *self.shape, device=self.device)).shape[1]
        self.model.train(training)
        return int(outputs)

    def build_narrow_model(self) -> nn.Module:
        """Return the network itself, which has outputs only for the classes."""
        return self.model

    def describe(self, arrays: Arrays) -> Manifest:
        """Describe arrays of which nothing is known but their shapes and types."""
        return Manifest.anonymous(arrays)
