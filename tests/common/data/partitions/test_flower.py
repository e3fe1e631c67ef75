"""Where flwr-datasets' partitioners are the same thing as ours, and where not: the reason why we
split ourselves."""

import warnings

import numpy as np
import pytest

from fedmirage.common.data.partitions import dirichlet
from fedmirage.common.data.partitions.counts import split_by_counts
from fedmirage.common.data.partitions.named import split
from fedmirage.common.data.partitions.params import Dirichlet
from fedmirage.common.data.set import Split

datasets = pytest.importorskip("datasets")
partitioners = pytest.importorskip("flwr_datasets.partitioner")

LABELS = np.random.default_rng(3).permutation(np.arange(6000) % 10)


def flower(labels: np.ndarray, clients: int, **options: object) -> list[np.ndarray]:
    """flwr-datasets' Dirichlet partition, unshuffled."""
    partitioner = partitioners.DirichletPartitioner(clients, "label", shuffle=False, **options)
    partitioner.dataset = datasets.Dataset.from_dict({"label": labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        partitioner.load_partition(0)
    return [
        np.sort(np.array(partitioner._partition_id_to_indices[client], dtype=np.int64))
        for client in range(clients)
    ]


def ours(labels: np.ndarray, clients: int, seed: int, params: Dirichlet) -> list[np.ndarray]:
    """Ours from the same numpy generator, unshuffled too."""
    generator = np.random.default_rng(seed)
    while True:
        counts = dirichlet._draw(params, np.bincount(labels), clients, generator)
        if counts is not None and counts.sum(axis=1).min() >= params.min_size:
            return split_by_counts(labels, counts)


@pytest.mark.parametrize("seed", range(4))
def test_dirichlet_without_cap_is_the_same(seed: int) -> None:
    theirs = flower(LABELS, 10, alpha=0.5, min_partition_size=10, self_balancing=False, seed=seed)
    mine = ours(LABELS, 10, seed, Dirichlet(alpha=0.5, capped=False))
    assert all(np.array_equal(one, other) for one, other in zip(theirs, mine, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_dirichlet_with_cap_is_the_same_up_to_a_sample_that_rounding_left(seed: int) -> None:
    theirs = flower(LABELS, 10, alpha=0.3, min_partition_size=10, self_balancing=True, seed=seed)
    mine = ours(LABELS, 10, seed, Dirichlet(alpha=0.3))
    counts = [
        np.stack([np.bincount(LABELS[part], minlength=10) for part in parts])
        for parts in (theirs, mine)
    ]
    assert np.abs(counts[0] - counts[1]).max() <= 1


def test_a_client_that_is_exactly_full() -> None:
    """Two classes of ten for two clients, alpha so small that a class goes to one client as a
    whole.

    Then that client holds exactly N/K = 10: the papers (and ours) give it nothing of the second
    class, flwr-datasets may.
    """
    labels = np.repeat([0, 1], 10)
    sizes = [
        [
            len(part)
            for part in flower(
                labels, 2, alpha=1e-3, min_partition_size=0, self_balancing=True, seed=s
            )
        ]
        for s in range(9)
    ]
    assert any(0 in pair for pair in sizes)
    draws = [
        dirichlet._draw(Dirichlet(alpha=1e-3), np.array([10, 10]), 2, np.random.default_rng(seed))
        for seed in range(20)
    ]
    full = [
        (row[0], row[1]) for counts in draws if counts is not None for row in counts if row[0] == 10
    ]
    assert len(full) > 5
    assert set(full) == {(10, 0)}


def test_natural_is_the_same_with_a_group_a_client() -> None:
    users = np.random.default_rng(0).integers(0, 7, 200)
    partitioner = partitioners.NaturalIdPartitioner("user")
    partitioner.dataset = datasets.Dataset.from_dict({"user": users})
    partitioner.load_partition(0)
    train = Split(np.zeros((200, 1, 1, 1), np.uint8), np.zeros(200, np.int64), {"user": users})
    for client, part in enumerate(split("natural", train, 1, 7, 0)):
        assert part.tolist() == partitioner._partition_id_to_indices[client]


def test_iid_has_the_same_sizes() -> None:
    partitioner = partitioners.IidPartitioner(7)
    partitioner.dataset = datasets.Dataset.from_dict({"label": LABELS[:100]})
    train = Split(np.zeros((100, 1, 1, 1), np.uint8), LABELS[:100])
    assert [len(partitioner.load_partition(client)) for client in range(7)] == [
        len(part) for part in split("iid", train, 10, 7, 0)
    ]
