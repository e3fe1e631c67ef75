"""The start of a run: everything that can be refused before it, and the round to continue from."""

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedmirage.common import device
from fedmirage.common.data.loading import load
from fedmirage.common.data.outline import outline
from fedmirage.common.data.partitions.named import check, check_columns, divide
from fedmirage.common.data.set import DataSet
from fedmirage.common.data.tables.statistics import find_unscaled
from fedmirage.common.errors import (
    ConfigurationError,
    FedmirageError,
    collect,
    list_problems,
    refuse,
)
from fedmirage.common.method import parts_of
from fedmirage.common.models.examination import examine
from fedmirage.common.models.params import OwnNetwork, explain_missing
from fedmirage.common.own_methods import find_missing_halves
from fedmirage.common.run import Run, blueprint, make_run, task_of
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import write
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import Manifest
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.messages.statistics import why_no_sums
from fedmirage.server.record import checkpoint as checkpoints
from fedmirage.server.record.checkpoint import Checkpoint
from fedmirage.server.record.results import FILE as RESULTS
from fedmirage.server.record.results import read_results


def check_run(config: RunConfig, folder: Path, divides: bool = True) -> Manifest:
    """Refuse all that can be wrong with a run before it begins, in one go; write nothing.

    It returns the manifest of the model. It is for a host that also holds the clients'
    data; `divides` says that these are shares of the server's set.
    """
    data = (config.dataset, config.data_dir or None, config.download)
    try:
        dataset = load(*data) if divides else describe_data(config)
    except FedmirageError as error:
        missing = explain_missing(config.model)
        raise ConfigurationError([*list_problems(error), *missing]) from error
    problems: list[str] = []

    def begin() -> Manifest:
        run, _ = make_run(config, dataset, torch.device("cpu"))
        find_start(run, folder)
        return run.manifest

    found = None
    steps: list[Callable[[], Any]] = [lambda: device.pick(config.device)]
    steps += [lambda: check_with_data(config, dataset)]
    steps += [lambda: divide(config, dataset)] if divides else []
    for step in (*steps, begin):
        try:
            found = step()
        except FedmirageError as error:
            problems += list_problems(error)
    refuse(problems)
    assert isinstance(found, Manifest)
    return found


def describe_data(config: RunConfig) -> DataSet:
    """Load the server's data; with server-data="none", make of the line what can be known so."""
    if config.server_reads_data:
        return load(config.dataset, config.data_dir or None, config.download)
    return outline(config.dataset_list, config.task, config.data_dir)


def find_start(run: Run, folder: Path) -> Checkpoint:
    """Find where a run starts: at round 0, at the last round before a resume, or in another run."""
    config, initial = run.config, run.shared.pick(run.initial, run.manifest)
    if config.resume:
        state = checkpoints.read_checkpoint(folder / checkpoints.FILE)
        require_same_model(state.shared, initial, config.resume)
        return state
    token = secrets.token_hex(8)
    if not config.warm_start:
        return Checkpoint(0, initial, token, counted={})
    source, _, number = config.warm_start.partition("@")
    parent = checkpoints.read_checkpoint(Path(source) / checkpoints.FILE)
    if number and not number.isdecimal():
        raise ConfigurationError(
            f"warm-start={config.warm_start!r}: write DIR or DIR@ROUND with a whole number"
        )
    start = int(number or parent.round)
    shared = (
        parent.shared
        if start == parent.round
        else read_kept_model(Path(source), start, run.shared.names)
    )
    require_same_model(shared, initial, config.warm_start)
    require_local_models(run, Path(source))
    if start >= config.rounds:
        raise ConfigurationError(
            f"rounds={config.rounds}, but warm-start={config.warm_start!r} begins after round"
            f" {start}; raise rounds"
        )
    begun = f"{parent.token}@{start}"
    return Checkpoint(start, shared, token, parent=begun, counted={}, scale=parent.scale)


def read_kept_model(source: Path, number: int, shared_names: Sequence[str]) -> Arrays:
    """Read the global model of a round from a run with keep-models=all.

    Where nothing is shared, there is no file to read.
    """
    if not shared_names:
        return []
    path = source / "models" / f"round-{number:05d}.safetensors"
    if not path.exists():
        raise FedmirageError(
            f"{source} keeps no model of round {number}; run it with keep-models='all', or start"
            " from its last round"
        )
    named, _ = read_arrays(path)
    return [named[name] for name in shared_names if name in named]


def require_same_model(found: Arrays, expected: Arrays, where: str) -> None:
    """Refuse weights of another model."""
    forms = [[(array.shape, array.dtype) for array in arrays] for arrays in (found, expected)]
    if forms[0] != forms[1]:
        raise FedmirageError(
            f"the weights in {where} belong to another model than this run's; use the model, data"
            " set and methods that it had"
        )


def require_local_models(run: Run, parent: Path) -> None:
    """Refuse to continue from a run whose clients did not keep the models that this one reads."""
    if not run.reads_local_models:
        return
    for line in read_results(parent / RESULTS)[:1]:
        # Runs of earlier versions kept them always, and do not say so.
        if not line.get("resolved", {}).get("keeps_local_models", True):
            raise ConfigurationError(
                f"warm-start={run.config.warm_start!r}: methods={run.config.methods!r} reads"
                f" the clients' last models, which the run in {parent} did not keep; run it"
                " again with keep-models='all'"
            )


def link_memories(source: Path, target: Path) -> None:
    """Take over the clients' memories of the run from which this one starts, if they are here.

    The files are immutable, so hard links are enough.
    """
    for path in source.glob("*/client-*/round-*.safetensors"):
        link = target / path.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            try:
                os.link(path, link)
            except OSError:  # another file system, or one without hard links
                shutil.copy2(path, link)


def check_with_data(config: RunConfig, dataset: DataSet) -> None:
    """Refuse all that can be wrong once the data are known, in one go."""
    partition, clients, train = config.partition_params, config.clients, dataset.train
    problems: list[str] = []
    if len(train):  # what is not read here is divided on the nodes, which check it
        problems += check(partition, clients, len(dataset.classes), len(train), dataset.task)
        problems += check_columns(partition, train.columns, clients)
    problems += find_missing_halves(config.method_list)
    problems += check_table(config, dataset)
    for attempt in (lambda: task_of(config, dataset), lambda: check_model(config, dataset)):
        with collect(problems):
            attempt()
    refuse(problems)


def check_table(config: RunConfig, dataset: DataSet) -> list[str]:
    """Say why a table cannot be normalised in this run, or cannot be learnt; nothing if it can."""
    if not dataset.schema:
        return []
    problems, labels = [], np.concatenate([dataset.train.labels, dataset.test.labels])
    if len(labels) and len(np.unique(labels)) < 2:
        problems.append(
            f"dataset: the labels of {dataset.name} are all of one class, so nothing can be learnt"
            " or tested with them; add rows of other classes"
        )
    unscaled = find_unscaled(dataset)
    return [*problems, *why_no_sums(config, unscaled)] if unscaled else problems


def check_model(config: RunConfig, dataset: DataSet) -> None:
    """Refuse a model that cannot be built or trained, or that shares what dp cannot protect."""
    model = blueprint(config, dataset.shape, len(dataset.classes))
    if isinstance(config.model_params, OwnNetwork):
        refuse(examine(model, dataset.shape, f"model={write(config.model_params)!r}"))
    sends = parts_of(config.method_list).sends
    shared = Manifest.of(model).only(sends)
    if sends and not shared.weights.entries:
        raise ConfigurationError(
            f"methods={config.methods!r} shares the {' and the '.join(sends)} of"
            f" model={config.model!r}, where nothing is trained; choose another place to cut"
            " (head=), or freeze less"
        )
    if shared.statistics.names and config.dp_params.active:
        raise ConfigurationError(
            f"dp: model={config.model!r} would share {shared.statistics.names[0]!r}, statistics"
            " of the clients' data that no noise covers; choose a model without batch norm,"
            ' such as simple-cnn, convnet, or resnet10(norm="group")'
        )
