"""The partitions that draw no shares: even, by a column of the data, or by fixed classes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions.counts import (
    Counts,
    Indices,
    apportion,
    divide_evenly,
    split_by_counts,
)
from fedmirage.common.data.partitions.params import Classes, Domains, Dominant, Iid, Natural
from fedmirage.common.data.set import Split
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.language import write

ATTEMPTS = 1000  # draws before the minimum of `domains` is refused

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Division:
    """Training samples that are to be divided, and the generator that all draws come from."""

    train: Split
    classes: int
    clients: int
    generator: np.random.Generator

    @cached_property
    def labels(self) -> Labels:
        """Class numbers; the partitions that read them are refused for multi-label sets."""
        return np.asarray(self.train.labels, dtype=np.int64)

    @cached_property
    def sizes(self) -> Counts:
        """The number of samples of every class."""
        return np.bincount(self.labels, minlength=self.classes)

    def no_counts(self) -> Counts:
        """Make an empty table of the samples of every client and class."""
        return np.zeros((self.clients, self.classes), dtype=np.int64)


def iid(params: Iid, what: Division) -> list[Indices]:
    """Shuffle, then cut into equal pieces."""
    return cut_evenly(len(what.train), what.clients, what.generator)


def cut_evenly(samples: int, pieces: int, generator: np.random.Generator) -> list[Indices]:
    """Shuffle, then cut into equal pieces."""
    shuffled = generator.permutation(np.arange(samples, dtype=np.int64))
    return [np.sort(piece) for piece in np.array_split(shuffled, pieces)]


def natural(params: Natural, what: Division) -> list[Indices]:
    """Give each client one group in order; if there are more, go round, or draw."""
    clients, generator = what.clients, what.generator
    groups, group_of = np.unique(what.train.columns[params.by], return_inverse=True)
    order = np.arange(len(groups)) if len(groups) == clients else generator.permutation(len(groups))
    # Unused groups belong to one client too many, which is dropped at the end.
    client_of = np.full(len(groups), clients, dtype=np.int64)
    given = order[:clients] if params.drawn else order
    client_of[given] = np.arange(len(given)) % clients
    owners = client_of[group_of]
    by_client = np.argsort(owners, kind="stable").astype(np.int64)
    return np.split(by_client, np.cumsum(np.bincount(owners, minlength=clients + 1))[:-1])[:clients]


def domains(params: Domains, what: Division) -> list[Indices]:
    """Cut one domain after the other into its shards."""
    column, parts = what.train.columns["domain"], []
    for name in np.unique(column):
        members = np.flatnonzero(column == name)
        shards = _shards(params, int(name), what.labels[members], what.generator)
        parts += [members[shard] for shard in shards]
    return parts


def _shards(
    params: Domains, domain: int, labels: Labels, generator: np.random.Generator
) -> list[Indices]:
    """Cut one domain into shards, given as positions within the domain."""
    if params.minimum == 0 and params.alpha is None:
        return cut_evenly(len(labels), params.shards, generator)
    sizes = np.bincount(labels)
    present = np.flatnonzero(sizes)
    for label in present:
        if sizes[label] < params.minimum * params.shards:
            raise _unreachable(params, domain, int(label), int(sizes[label]))
    if params.alpha is None:
        return _even_shards(params, domain, labels, generator)
    counts = np.zeros((params.shards, len(sizes)), dtype=np.int64)
    for label in present:
        # Redrawing one class until it has its minimum gives the same distribution as redrawing all
        # of them, and ends sooner.
        for _ in range(ATTEMPTS):
            shares = generator.dirichlet(np.full(params.shards, params.alpha))
            counts[:, label] = apportion(int(sizes[label]), shares)
            if counts[:, label].min() >= params.minimum:
                break
        else:
            raise _unreachable(params, domain, int(label), int(sizes[label]))
    return split_by_counts(labels, counts, generator)


def _even_shards(
    params: Domains, domain: int, labels: Labels, generator: np.random.Generator
) -> list[Indices]:
    """Split evenly, again and again until every shard has its minimum of every class."""
    sizes = np.bincount(labels)
    for _ in range(ATTEMPTS):
        shards = cut_evenly(len(labels), params.shards, generator)
        held = [np.bincount(labels[shard], minlength=len(sizes)) for shard in shards]
        least = np.min(held, axis=0)
        short = np.flatnonzero((sizes > 0) & (least < params.minimum))
        if len(short) == 0:
            return shards
    raise _unreachable(params, domain, int(short[0]), int(sizes[short[0]]))


def _unreachable(params: Domains, domain: int, label: int, size: int) -> ConfigurationError:
    return ConfigurationError(
        f"partition: {write(params)}: domain {domain} has {size} samples of class {label}, and"
        f" up to {ATTEMPTS} draws with alpha={params.alpha} never gave minimum={params.minimum}"
        f" of them to each of shards={params.shards}; set a smaller minimum, a larger alpha or"
        " fewer shards"
    )


def by_classes(params: Classes, what: Division) -> list[Indices]:
    """Split like FedCOG's NIID-2: blocks of s classes, cut in the order of the data set."""
    classes, clients = what.classes, what.clients
    blocks = -(-classes // params.per_client)
    firsts = params.per_client * (np.arange(clients) % blocks)
    holds = (firsts[:, None] + np.arange(params.per_client)) % classes  # (clients, per_client)
    counts = what.no_counts()
    for label in range(classes):
        holders = np.flatnonzero((holds == label).any(axis=1))
        if len(holders):
            counts[holders, label] = divide_evenly(what.sizes[label], len(holders))
    if params.samples is not None:
        counts = _limit(params.samples, counts, holds)
    return split_by_counts(what.labels, counts)


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


def dominant(params: Dominant, what: Division) -> list[Indices]:
    """Split like VHL's subset: `share` of a class to its own clients, the rest evenly to others.

    On CIFAR-10 with ten clients, the others get 5 or 6 samples each.
    """
    classes, clients, counts = what.classes, what.clients, what.no_counts()
    everybody = np.arange(clients)
    for label, size in enumerate(map(int, what.sizes)):
        own = everybody % classes == label if clients >= classes else everybody == label % clients
        # shuffled, so that it is not always client 0 that gets the odd sample
        others = what.generator.permutation(everybody[~own])
        stays = round(params.share * size) if len(others) else size
        counts[own, label] = divide_evenly(stays, int(own.sum()))
        if len(others):
            counts[others, label] = divide_evenly(size - stays, len(others))
    return split_by_counts(what.labels, counts, what.generator)
