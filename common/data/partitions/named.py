"""Splits the training samples by the partition that a line names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fedmirage.common.data.files.places import data_folder
from fedmirage.common.data.partitions import dirichlet, groups, listed
from fedmirage.common.data.partitions import params as kinds
from fedmirage.common.data.partitions.checks import check, check_columns
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.partitions.groups import Division
from fedmirage.common.data.partitions.params import PARTITIONS, PartitionParams
from fedmirage.common.data.set import DataSet, Split, Task
from fedmirage.common.errors import ConfigurationError, refuse
from fedmirage.common.settings.language import resolve_one, write

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig

DIVIDERS: dict[type[PartitionParams], Callable[[Any, Division], list[Indices]]] = {
    kinds.Iid: groups.iid,
    kinds.Dirichlet: dirichlet.dirichlet,
    kinds.DirichletEqual: dirichlet.dirichlet_equal,
    kinds.DirichletClient: dirichlet.dirichlet_client,
    kinds.Classes: groups.by_classes,
    kinds.Dominant: groups.dominant,
    kinds.Natural: groups.natural,
    kinds.Domains: groups.domains,
}


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
    parts = DIVIDERS[type(params)](params, Division(train, classes, clients, generator))
    empty = [client for client, part in enumerate(parts) if len(part) == 0]
    if empty:
        raise ConfigurationError(
            f"partition: {write(params)}: client {empty[0]} gets none of the {len(train)}"
            f" samples ({len(empty)} of clients={clients} are empty); take fewer clients or"
            " less skew"
        )
    return parts


@dataclass(frozen=True)
class Drawn(Sequence[Indices]):
    """The parts of all clients, none of which is kept: a part is drawn anew by client and seed."""

    samples: int  # of the whole training split
    clients: int
    per_client: int
    seed: int

    def __len__(self) -> int:
        return self.clients

    @overload
    def __getitem__(self, client: int) -> Indices: ...

    @overload
    def __getitem__(self, client: slice) -> list[Indices]: ...

    def __getitem__(self, client: int | slice) -> Indices | list[Indices]:
        if isinstance(client, slice):
            return [self[one] for one in range(self.clients)[client]]
        from fedmirage.common.seeds import numpy_generator

        number = range(self.clients)[client]
        generator = numpy_generator(self.seed, "partition", "draw", number)
        drawn = generator.choice(self.samples, self.per_client, replace=False, shuffle=False)
        return np.sort(drawn).astype(np.int64)
