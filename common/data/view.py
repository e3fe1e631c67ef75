"""One client's part of the data: training samples, validation share and part of the test set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.errors import ConfigurationError


@dataclass(frozen=True)
class ClientView:
    """One client's samples as ascending positions in the splits of `dataset`."""

    dataset: DataSet
    partition: int
    train: Indices
    validation: Indices  # also of the training split; never trained on
    # of the test split: a random share, as large as every other client's and disjoint from it
    test_shard: Indices
    # (classes,) of the samples in `train`; in multi-label sets, how often each label occurs
    class_counts: npt.NDArray[np.int64]


def view(
    dataset: DataSet, indices: Indices, partition: int, clients: int, validation: float, seed: int
) -> ClientView:
    """Build the view of client `partition`, whose part of the training split is `indices`.

    `validation` is the share that is never trained on. If it is above 0, a client with two samples
    or more holds out at least one, and always keeps one to train on. With more clients than test
    samples, some test shards are empty.
    """
    # imported here, because it loads torch, which a view does not need
    from fedmirage.common.seeds import numpy_generator

    if not 0 <= partition < clients:
        raise ConfigurationError(
            f"partition={partition}: with clients={clients} it must be from 0 to {clients - 1}"
        )
    validated = _count_validation(len(indices), validation)
    shuffled = numpy_generator(seed, "validation", partition).permutation(indices)
    train = np.sort(shuffled[validated:])
    order = _shuffle_test(seed, len(dataset.test))
    tested = order[_cut(len(order), clients, partition) : _cut(len(order), clients, partition + 1)]
    return ClientView(
        dataset=dataset,
        partition=partition,
        train=train,
        validation=np.sort(shuffled[:validated]),
        test_shard=np.sort(tested).astype(np.int64),
        class_counts=count_classes(dataset.train.labels[train], len(dataset.classes)),
    )


@lru_cache(maxsize=4)
def _shuffle_test(seed: int, samples: int) -> Indices:
    """The order in which the test split is cut into shards, the same for all clients."""
    from fedmirage.common.seeds import numpy_generator

    order: Indices = numpy_generator(seed, "test-shard").permutation(samples)
    return order


def own_view(
    dataset: DataSet, partition: int, clients: int, validation: float, seed: int
) -> ClientView:
    """Build the view of a set that belongs to this client alone: all of it, test split included."""
    everything = np.arange(len(dataset.train))
    given = view(dataset, everything, partition, clients, validation, seed)
    return replace(given, test_shard=np.arange(len(dataset.test)))


def share_test(dataset: DataSet, parts: Sequence[Indices], seed: int) -> list[Indices]:
    """Divide the test split as the training split is divided: one array of positions per client.

    Of every class (and domain) each client gets the same share as of the training samples. So what
    it holds out looks like what it trains on, and nothing is held out twice. Samples with several
    labels have no class to go by: every client gets a share of all.
    """
    from fedmirage.common.seeds import numpy_generator

    train, test = _kinds(dataset.train), _kinds(dataset.test)
    shares: list[list[Indices]] = [[] for _ in parts]
    for number, kind in enumerate(np.unique(test)):
        random = numpy_generator(seed, "held-out-share", number)
        order = random.permutation(np.flatnonzero(test == kind))
        counts = np.array([np.count_nonzero(train[part] == kind) for part in parts])
        ends = np.cumsum(counts) * len(order) // max(1, counts.sum())
        for share, found in zip(shares, np.split(order, ends)[: len(parts)], strict=True):
            share.append(found)
    return [np.sort(np.concatenate([*share, np.zeros(0, np.int64)])) for share in shares]


def _kinds(split: Split) -> Indices:
    """Number the samples of a split by class and domain."""
    labels = split.labels if split.labels.ndim == 1 else np.zeros(len(split), np.int64)
    domains = split.columns.get("domain", np.zeros(len(split), np.int64))
    kinds: Indices = (domains << 32) + labels.astype(np.int64)
    return kinds


def count_classes(
    labels: npt.NDArray[np.int64] | npt.NDArray[np.uint8], classes: int
) -> npt.NDArray[np.int64]:
    """Count each class among class numbers (samples,) or among 0s and 1s (samples, classes)."""
    if labels.ndim == 2:
        return np.asarray(labels.sum(axis=0), dtype=np.int64)
    return np.bincount(labels, minlength=classes).astype(np.int64)


def _cut(samples: int, clients: int, partition: int) -> int:
    """Return where a client's shard begins; the first shards have one sample more, if any have."""
    least, more = divmod(samples, clients)
    return least * partition + min(partition, more)


def _count_validation(samples: int, validation: float) -> int:
    if validation == 0 or samples < 2:
        return 0
    return min(max(1, round(validation * samples)), samples - 1)
