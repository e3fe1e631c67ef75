"""Splits the training samples by the partition that a line names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.files.places import data_folder
from fedmirage.common.data.partitions import dirichlet, groups, listed
from fedmirage.common.data.partitions import params as kinds
from fedmirage.common.data.partitions.checks import check, check_columns
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.partitions.drawn import Drawn
from fedmirage.common.data.partitions.params import PARTITIONS, PartitionParams
from fedmirage.common.data.set import DataSet, Split, Task
from fedmirage.common.errors import ConfigurationError, refuse
from fedmirage.common.settings.language import resolve_one, write

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig


def divide(config: RunConfig, dataset: DataSet) -> Sequence[Indices]:
    """Split the training samples of a run among its clients: one array of positions for each."""
    params, train = config.partition_params, dataset.train
    if isinstance(params, kinds.Listed):
        folder = data_folder(config.data_dir or None)
        return listed.read_listed(params, dataset, config.clients, config.seed, folder)
    return split(params, train, len(dataset.classes), config.clients, config.seed)


def split(
    partition: str | PartitionParams, train: Split, classes: int, clients: int, seed: int
) -> Sequence[Indices]:
    """Split the training samples: one array of positions per client.

    `partition` is a line such as "dirichlet(alpha=0.1)", or its params.
    """
    # imported here, because it loads torch, which listing the partitions does not need
    from fedmirage.common.seeds import numpy_generator

    params = (
        resolve_one(partition, PARTITIONS, "partition") if isinstance(partition, str) else partition
    )
    task: Task = "multi-label" if train.labels.ndim == 2 else "single-label"
    problems = check(params, clients, classes, len(train), task)
    problems += check_columns(params, train.columns, clients)
    refuse(problems)
    if isinstance(params, kinds.OwnDraw):
        return Drawn(len(train), clients, params.per_client, seed)
    generator = numpy_generator(seed, "partition", params.name)
    parts = _divide(params, train, classes, clients, generator)
    empty = [client for client, part in enumerate(parts) if len(part) == 0]
    if empty:
        raise ConfigurationError(
            f"partition: {write(params)}: client {empty[0]} gets none of the {len(train)}"
            f" samples ({len(empty)} of clients={clients} are empty); take fewer clients or"
            " less skew"
        )
    return parts


def _divide(
    params: PartitionParams, train: Split, classes: int, clients: int, random: np.random.Generator
) -> list[Indices]:
    # class numbers; the partitions that read them are refused for multi-label sets
    numbers: npt.NDArray[np.int64] = np.asarray(train.labels, dtype=np.int64)
    match params:
        case kinds.Iid():
            return groups.iid(len(train), clients, random)
        case kinds.Dirichlet():
            return dirichlet.dirichlet(params, numbers, classes, clients, random)
        case kinds.DirichletEqual():
            return dirichlet.dirichlet_equal(params, numbers, classes, clients, random)
        case kinds.DirichletClient():
            return dirichlet.dirichlet_client(params, numbers, classes, clients, random)
        case kinds.Classes():
            return groups.by_classes(params, numbers, classes, clients)
        case kinds.Dominant():
            return groups.dominant(params, numbers, classes, clients, random)
        case kinds.Natural():
            return groups.natural(params, train, clients, random)
        case kinds.Domains():
            return groups.domains(params, train, clients, random)
    raise ConfigurationError(
        f"partition: {params.name!r} has params but no function that splits by them; add one in"
        " common/data/partitions"
    )
