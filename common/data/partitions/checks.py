"""Finds what is wrong with a partition, as far as that is known before any sample is split."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions import params as kinds
from fedmirage.common.data.partitions.params import PartitionParams
from fedmirage.common.data.set import Task
from fedmirage.common.settings.language import write


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
    groups = len(np.unique(columns[name]))
    if isinstance(params, kinds.Natural) and groups < clients:
        return [
            f"partition: {write(params)}: column {params.by!r} has {groups} groups for"
            f" clients={clients}; set clients to {groups} or fewer"
        ]
    if isinstance(params, kinds.Domains) and groups * params.shards != clients:
        return [
            f"partition: {write(params)}: {groups} domains times shards={params.shards} are"
            f" {groups * params.shards} clients, not clients={clients}; set"
            f" clients={groups * params.shards} or another number of shards"
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
