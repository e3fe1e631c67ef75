"""What is wrong with a partition, as far as it can be told before any sample is dealt."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from common.data.partitions.params import Classes, Dirichlet, Domains, Natural, PartitionParams
from common.data.set import Task
from common.settings.language import write


def check(
    params: PartitionParams, clients: int, classes: int, samples: int, task: Task = "single-label"
) -> list[str]:
    """Sentences, one per problem; empty if the partition may be tried.

    Groups and domains are the business of `check_columns`; what depends on how large the classes
    are is found by `split`.
    """
    if clients < 1:
        return [f"clients={clients}: a federation needs at least one client; set clients=1 or more"]
    problems = _too_few(params, clients, samples)
    if task == "multi-label":
        problems += _multi_label(params)
    if isinstance(params, Classes) and task == "single-label":
        problems += _classes(params, clients, classes, samples)
    return problems


def check_columns(
    params: PartitionParams, columns: Mapping[str, npt.NDArray[np.int64]], clients: int
) -> list[str]:
    """The same for a partition that goes by a column of the data, which must be there and have the
    right number of values."""
    if not isinstance(params, Natural | Domains):
        return []
    name = params.by if isinstance(params, Natural) else "domain"
    if name not in columns:
        there = f"it has {', '.join(sorted(columns))}" if columns else "it has no columns at all"
        return [
            f"partition: {params.name} needs the column {name!r} of the data, but {there}; take"
            " another column, data or partition"
        ]
    groups = len(np.unique(columns[name]))
    if isinstance(params, Natural) and groups < clients:
        return [
            f"partition: {write(params)}: column {params.by!r} has {groups} groups for"
            f" clients={clients}; set clients to {groups} or fewer"
        ]
    if isinstance(params, Domains) and groups * params.shards != clients:
        return [
            f"partition: {write(params)}: {groups} domains times shards={params.shards} are"
            f" {groups * params.shards} clients, not clients={clients}; set"
            f" clients={groups * params.shards} or another number of shards"
        ]
    return []


def _too_few(params: PartitionParams, clients: int, samples: int) -> list[str]:
    if clients > samples:
        return [
            f"clients={clients}: more clients than the {samples} training samples; set clients to"
            f" {samples} or fewer"
        ]
    if isinstance(params, Dirichlet) and clients * params.min_size > samples:
        return [
            f"partition: {write(params)}: {clients} clients with min_size={params.min_size} need"
            f" {clients * params.min_size} samples, there are {samples}; set min_size to"
            f" {samples // clients} or less, or fewer clients"
        ]
    return []


def _multi_label(params: PartitionParams) -> list[str]:
    """A sample with several labels has no class number to deal by; only labels within a domain
    could be asked for by mistake."""
    advice = "the samples carry several labels each; take iid, natural(by=...) or domains"
    if params.single_label:
        return [f"partition: {params.name} deals samples by their one class, but {advice}"]
    if isinstance(params, Domains) and (params.alpha is not None or params.minimum):
        return [
            f"partition: {write(params)}: alpha and minimum count classes, but {advice} without"
            " alpha and minimum"
        ]
    return []


def _classes(params: Classes, clients: int, classes: int, samples: int) -> list[str]:
    problems = []
    if params.per_client > classes:
        problems.append(
            f"partition: classes(per_client={params.per_client}): more classes a client than the"
            f" {classes} classes of the data; set per_client to {classes} or less"
        )
    if params.samples is None:
        return problems
    if params.samples < params.per_client:
        problems.append(
            f"partition: classes(samples={params.samples}): fewer samples than the"
            f" {params.per_client} classes a client holds; set samples to {params.per_client} or"
            " more"
        )
    if params.samples * clients > samples:
        problems.append(
            f"partition: classes(samples={params.samples}): {clients} clients need"
            f" {params.samples * clients} samples, there are {samples}; set samples to"
            f" {samples // clients} or less, or fewer clients"
        )
    return problems
