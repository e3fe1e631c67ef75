"""The facts of a run, which both sides derive from the same configuration and data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmirage.common.data.batches import Resident
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.data.tables.statistics import Scale
from fedmirage.common.device import memory_format
from fedmirage.common.errors import collect, refuse
from fedmirage.common.learning.task import ALL_OUTPUTS, TASKS, Task
from fedmirage.common.method import Parts, Section, Shape, parts_of
from fedmirage.common.models.base import Model
from fedmirage.common.models.beginning import begin_with, freeze
from fedmirage.common.models.factory import build
from fedmirage.common.models.params import OwnNetwork
from fedmirage.common.seeds import derive, seed_torch
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.manifest import Entry, Manifest, to_arrays
from fedmirage.common.wire.payload import Arrays


@dataclass(frozen=True, eq=False)
class Run:
    """The facts of a run, made once per process on either side."""

    config: RunConfig
    dataset: DataSet
    task: Task
    device: torch.device
    manifest: Manifest  # of the whole model
    initial: Arrays  # its weights as the seed gives them, in the order of the manifest

    @property
    def classes(self) -> int:
        """The number of classes in the data; a head may be wider."""
        return len(self.dataset.classes)

    @property
    def shape(self) -> Shape:
        """The shape of one input; (channels, height, width) of a picture."""
        return self.dataset.shape

    @property
    def memory_format(self) -> torch.memory_format:
        """How inputs lie in memory; only pictures have channels that could be last."""
        return memory_format(self.config) if len(self.shape) == 3 else torch.contiguous_format

    @cached_property
    def parts(self) -> Parts:
        """Which parts of the model are sent and which are loaded."""
        return parts_of(self.config.method_list)

    @cached_property
    def shared(self) -> Manifest:
        """The entries of the model that cross the wire and are averaged."""
        return self.manifest.only(self.parts.sends)

    @cached_property
    def loaded(self) -> Manifest:
        """The shared entries that a client takes over from the server."""
        return self.manifest.only(
            self.parts.sends if self.parts.loads is None else self.parts.loads
        )

    @property
    def reads_local_models(self) -> bool:
        """Whether clients start from, or compare with, their own last local models."""
        partly = self.loaded != self.manifest
        return partly or any(method.reads_local_model for method in self.config.method_list)

    @property
    def keeps_local_models(self) -> bool:
        """Whether clients keep their last local models: where something reads them, or on request.

        Writing them costs more than the training of a small client.
        """
        config = self.config
        wanted = config.keep_models == "all" or config.averages_local_models
        return wanted or self.reads_local_models

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections that clients send in addition to `shared`."""
        return tuple(section for method in self.config.method_list for section in method.up)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of the metrics that an evaluation returns."""
        widened = any(method.extra_outputs(self.classes) for method in self.config.method_list)
        return (*self.task.metrics, ALL_OUTPUTS) if widened else self.task.metrics

    def without_shared_weights(self) -> Run:
        """Return the run of a server, whose model never has the initial values of what is shared.

        In their place are zeros that take no memory.
        """
        zeros = [np.broadcast_to(array.dtype.type(0), array.shape) for array in self.initial]
        picked = self.shared.pick(zeros, self.manifest)
        return replace(self, initial=self.shared.place(picked, self.initial, self.manifest))

    def load(self, split: Split, indices: Indices) -> Resident:
        """Put the indexed samples of a split on the device."""
        data = self.dataset
        return Resident.load(split, indices, self.device, self.memory_format, data.mean, data.std)

    def in_batches(self, samples: Resident) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all samples once, normalised as the run's model expects them, for evaluation."""
        return samples.in_order(self.dataset.mean, self.dataset.std, self.memory_format)

    def entries_of(self, section: Section) -> tuple[Entry, ...] | None:
        """Return what the arrays of a section must look like; None where only the method knows."""
        if section.holds is None:
            return None
        if section.holds == "weights":
            return self.shared.weights.entries
        if section.holds == "number":
            return (Entry(section.name, (1,), None),)
        shapes = section.holds(self.classes, self.shape)
        return tuple(Entry(f"{section.name}.{at}", shape, None) for at, shape in enumerate(shapes))


def make_run(
    config: RunConfig, dataset: DataSet, device: torch.device, opens_file: bool = True
) -> tuple[Run, Model]:
    """Return the facts of a run, and its model with its initial weights, on the CPU."""
    model = blueprint(config, dataset.shape, len(dataset.classes), opens_file)
    task = task_of(config, dataset)
    return Run(config, dataset, task, device, Manifest.of(model), to_arrays(model)), model


@lru_cache(maxsize=4)
def normalise_run(run: Run, content: Any) -> Run:
    """Return the run with the normalisation that a message names; refuse one that names none."""
    scale = Scale.from_bytes(content, run.shape[0])
    return replace(run, dataset=scale.apply(run.dataset))


def blueprint(config: RunConfig, shape: Shape, classes: int, opens_file: bool = True) -> Model:
    """Build the run's model with the initial weights of the seed, or of initial-weights.

    A client need not open that file if all weights come from the server. The model has the outputs
    that methods add to its head, and the parts that methods add. What `freeze` names is fixed.
    """
    extra = sum(method.extra_outputs(classes) for method in config.method_list)
    model = build(config.model_params, shape, classes, extra, derive(config.seed, "model"))
    for method in config.method_list:
        with seed_torch(derive(config.seed, "parts", method.name)):
            added = method.build_parts(shape, classes, model.feature_dim)
            if set(added) != set(method.parts.adds):
                raise TypeError(
                    f"{method.name} builds {set(added)}, but `adds` {method.parts.adds}"
                )
            for name, part in added.items():
                model.add_module(name, part)
    problems: list[str] = []
    with collect(problems):
        if opens_file and config.initial_weights:
            begin_with(model, config.initial_weights)
    with collect(problems):
        if config.freeze:
            freeze(model, config.freeze)
    refuse(problems)
    return model


@contextmanager
def own_randomness(config: RunConfig, *position: int | str) -> Iterator[None]:
    """Seed torch's own generator, from which somebody's own network may draw (dropout).

    The networks here draw nothing.
    """
    if not isinstance(config.model_params, OwnNetwork):
        yield
        return
    with seed_torch(derive(config.seed, "own-network", *position)):
        yield


def task_of(config: RunConfig, dataset: DataSet) -> Task:
    """Return the task that the run asks for; refuse one that does not fit the labels."""
    name = dataset.task if config.task == "auto" else config.task
    problems = []
    if name != dataset.task:
        problems.append(
            f"task={name!r}, but the labels of {dataset.name} are {dataset.task}; write task='auto'"
            " or choose other data"
        )
    if name == "multi-label":
        problems += [
            f"methods: {method.name} is not defined for multi-label tasks such as {dataset.name}:"
            f" {method.single_label_because}; leave it out or choose other data"
            for method in config.method_list
            if method.single_label_because
        ]
    refuse(problems)
    return TASKS[name]


def appearance(dataset: DataSet) -> dict[str, str | int]:
    """Return the facts about the data that server and nodes compare.

    None of them depends on a single record of a node's own data.
    """
    return {"fingerprint": dataset.fingerprint, **form_of(dataset)}


def form_of(dataset: DataSet) -> dict[str, str | int]:
    """Return what their line says about the data, too."""
    return {
        "shape": "x".join(map(str, dataset.shape)),
        "classes": len(dataset.classes),
        "task": dataset.task,
    }
