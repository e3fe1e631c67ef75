"""The two partitions that fix which classes a client holds."""

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions.counts import Counts, Indices, divide_evenly, split_by_counts
from fedmirage.common.data.partitions.params import Classes, Dominant
from fedmirage.common.errors import ConfigurationError

Labels = npt.NDArray[np.int64]


def by_classes(params: Classes, labels: Labels, classes: int, clients: int) -> list[Indices]:
    """Split like FedCOG's NIID-2: blocks of s classes, cut in the order of the data set."""
    sizes = np.bincount(labels, minlength=classes)
    blocks = -(-classes // params.per_client)
    firsts = params.per_client * (np.arange(clients) % blocks)
    holds = (firsts[:, None] + np.arange(params.per_client)) % classes  # (clients, per_client)
    counts = np.zeros((clients, classes), dtype=np.int64)
    for label in range(classes):
        holders = np.flatnonzero((holds == label).any(axis=1))
        if len(holders):
            counts[holders, label] = divide_evenly(sizes[label], len(holders))
    if params.samples is not None:
        counts = _limit(params.samples, counts, holds)
    return split_by_counts(labels, counts)


def _limit(samples: int, counts: Counts, holds: Counts) -> Counts:
    """Give every client `samples`, evenly over its classes; refuse if a class is too small."""
    limited = np.zeros_like(counts)
    quotas = divide_evenly(samples, holds.shape[1])
    for client, own in enumerate(holds):
        limited[client, own] = quotas
    short = np.argwhere(limited > counts)
    if len(short):
        client, label = (int(number) for number in short[0])
        raise ConfigurationError(
            f"partition: classes(samples={samples}): client {client} needs"
            f" {limited[client, label]} of class {label}, its share of that class is"
            f" {counts[client, label]}; set fewer samples, fewer clients or another per_client"
        )
    return limited


def dominant(
    params: Dominant, labels: Labels, classes: int, clients: int, generator: np.random.Generator
) -> list[Indices]:
    """Split like VHL's subset: `share` of a class to its own clients, the rest evenly to others.

    On CIFAR-10 with ten clients, the others get 5 or 6 samples each.
    """
    sizes = np.bincount(labels, minlength=classes)
    counts = np.zeros((clients, classes), dtype=np.int64)
    everybody = np.arange(clients)
    for label in range(classes):
        own = everybody % classes == label if clients >= classes else everybody == label % clients
        # shuffled, so that it is not always client 0 that gets the odd sample
        others = generator.permutation(everybody[~own])
        stays = round(params.share * int(sizes[label])) if len(others) else int(sizes[label])
        counts[own, label] = divide_evenly(stays, int(own.sum()))
        if len(others):
            counts[others, label] = divide_evenly(int(sizes[label]) - stays, len(others))
    return split_by_counts(labels, counts, generator)
