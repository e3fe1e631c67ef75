"""Splits the training samples by the partition that a line names.

`check` finds what is wrong with a partition before any sample is split, as far as that can be
known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.files.places import data_folder
from fedmirage.common.data.partitions import dirichlet, groups, listed
from fedmirage.common.data.partitions import params as kinds
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


def check(
    params: PartitionParams, clients: int, classes: int, samples: int, task: Task = "single-label"
) -> list[str]:
    """Return one sentence per problem; none if the partition may be tried.

    `check_columns` checks groups and domains, and `split` finds what depends on the class sizes.
    """
    if clients < 1:
        return [f"clients={clients}: a federation needs at least one client; set clients=1 or more"]
    problems = _too_few(params, clients, samples)
    if task == "multi-label":
        problems += _multi_label(params)
    if isinstance(params, kinds.Classes) and task == "single-label":
        problems += _classes(params, clients, classes, samples)
    return problems


def check_columns(
    params: PartitionParams, columns: Mapping[str, npt.NDArray[np.int64]], clients: int
) -> list[str]:
    """Check that the column by which a partition splits exists, and the number of its values."""
    if not isinstance(params, kinds.Natural | kinds.Domains):
        return []
    name = params.by if isinstance(params, kinds.Natural) else "domain"
    if name not in columns:
        present = f"it has {', '.join(sorted(columns))}" if columns else "it has no columns at all"
        return [
            f"partition: {params.name} needs the column {name!r} of the data, but {present}; choose"
            " another column, data set or partition"
        ]
    values = len(np.unique(columns[name]))
    if isinstance(params, kinds.Natural) and values < clients:
        return [
            f"partition: {write(params)}: column {params.by!r} has {values} groups for"
            f" clients={clients}; set clients to {values} or fewer"
        ]
    if isinstance(params, kinds.Domains) and values * params.shards != clients:
        return [
            f"partition: {write(params)}: {values} domains times shards={params.shards} are"
            f" {values * params.shards} clients, not clients={clients}; set"
            f" clients={values * params.shards} or another number of shards"
        ]
    return []


def _too_few(params: PartitionParams, clients: int, samples: int) -> list[str]:
    if isinstance(params, kinds.OwnDraw):
        return _too_many_drawn(params, samples)
    if clients > samples:
        return [
            f"clients={clients}: more clients than the {samples} training samples; set clients to"
            f" {samples} or fewer, or let them share samples with draw(per_client=...)"
        ]
    if isinstance(params, kinds.Dirichlet) and clients * params.min_size > samples:
        return [
            f"partition: {write(params)}: {clients} clients with min_size={params.min_size} need"
            f" {clients * params.min_size} samples, there are {samples}; set min_size to"
            f" {samples // clients} or less, or fewer clients"
        ]
    return []


def _too_many_drawn(params: kinds.OwnDraw, samples: int) -> list[str]:
    if params.per_client <= samples:
        return []
    return [
        f"partition: {write(params)}: a client draws no sample twice, and there are {samples}; set"
        f" per_client to {samples} or less"
    ]


def _multi_label(params: PartitionParams) -> list[str]:
    """Refuse to split samples with several labels by class, also within a domain."""
    advice = "the samples carry several labels each; choose iid, natural(by=...) or domains"
    if params.single_label:
        return [f"partition: {params.name} splits samples by their one class, but {advice}"]
    if isinstance(params, kinds.Domains) and (params.alpha is not None or params.minimum):
        return [
            f"partition: {write(params)}: alpha and minimum count classes, but {advice} without"
            " alpha and minimum"
        ]
    return []


def _classes(params: kinds.Classes, clients: int, classes: int, samples: int) -> list[str]:
    problems = []
    if params.per_client > classes:
        problems.append(
            f"partition: classes(per_client={params.per_client}): more classes per client than the"
            f" {classes} classes of the data; set per_client to {classes} or less"
        )
    if params.samples is None:
        return problems
    if params.samples < params.per_client:
        problems.append(
            f"partition: classes(samples={params.samples}): fewer samples than the"
            f" {params.per_client} classes per client; set samples to {params.per_client} or"
            " more"
        )
    if params.samples * clients > samples:
        problems.append(
            f"partition: classes(samples={params.samples}): {clients} clients need"
            f" {params.samples * clients} samples, there are {samples}; set samples to"
            f" {samples // clients} or less, or fewer clients"
        )
    return problems
