"""Each paper's partition with the figures that the paper, its code or a simulation of it gives."""

import numpy as np
import pytest

from fedmirage.common.data.partitions import dirichlet
from fedmirage.common.data.partitions.counts import apportion, divide_evenly, split_by_counts
from fedmirage.common.data.partitions.groups import Division
from fedmirage.common.data.partitions.named import split
from fedmirage.common.data.partitions.params import Dirichlet, DirichletClient
from fedmirage.common.data.set import Split
from fedmirage.common.errors import ConfigurationError
from tests.support.label_samples import balanced, make_split, table

FASHION = balanced(60_000)
CIFAR = balanced(50_000)


def test_fedcog_niid_2() -> None:
    """Ten clients, ten classes, s = 2: client i holds 2*(i mod 5) and the next, 3,000 of each;
    clients 0 and 5 share a block."""
    parts = split("classes(per_client=2)", FASHION, 10, 10, 0)
    counts = table(FASHION, parts)
    for client in range(10):
        expected = np.zeros(10)
        expected[[2 * (client % 5), 2 * (client % 5) + 1]] = 3000
        assert np.array_equal(counts[client], expected)
    zeros = np.flatnonzero(
        FASHION.labels == 0
    )  # the order of the data set: the first half to client 0, the second to client 5
    assert np.array_equal(parts[0][FASHION.labels[parts[0]] == 0], zeros[:3000])
    assert np.array_equal(parts[5][FASHION.labels[parts[5]] == 0], zeros[3000:])
    other_seed = split("classes(per_client=2)", FASHION, 10, 10, 1)
    assert all(np.array_equal(one, other) for one, other in zip(parts, other_seed, strict=True))


def test_fedcog_niid_2_of_a_hundred_classes() -> None:
    hundred = balanced(50_000, 100)
    counts = table(hundred, split("classes(per_client=10)", hundred, 100, 10, 0), 100)
    assert ((counts > 0).sum(axis=1) == 10).all()
    assert counts.max() == 500
    assert counts.sum() == 50_000


def test_classes_that_do_not_divide() -> None:
    """Ten classes in threes: the fourth block is 9, 0, 1, so class 0 is cut in two."""
    counts = table(CIFAR, split("classes(per_client=3)", CIFAR, 10, 4, 0))
    assert ((counts > 0).sum(axis=1) == 3).all()
    assert np.flatnonzero(counts[3]).tolist() == [0, 1, 9]
    assert counts.sum() == 50_000
    assert counts[0, 0] == counts[3, 0] == 2500


def test_vhl_two_classes_of_500_samples() -> None:
    counts = table(CIFAR, split("classes(per_client=2, samples=500)", CIFAR, 10, 100, 0))
    assert (counts.sum(axis=1) == 500).all()
    assert ((counts == 250) | (counts == 0)).all()
    odd = table(CIFAR, split("classes(per_client=2, samples=7)", CIFAR, 10, 10, 0))
    assert sorted(odd[0]) == [0] * 8 + [3, 4]


def test_too_small_a_class_is_named() -> None:
    train = make_split(np.repeat([0, 1], [10, 90]))
    with pytest.raises(
        ConfigurationError, match="client 0 needs 20 of class 0, its share of that class is 10"
    ):
        split("classes(per_client=2, samples=40)", train, 2, 1, 0)


def test_vhl_subset() -> None:
    """CIFAR-10 and ten clients: 4,950 of the own class, 5 or 6 of each other one."""
    counts = table(CIFAR, split("dominant", CIFAR, 10, 10, 0))
    assert (np.diag(counts) == 4950).all()
    assert set(counts[~np.eye(10, dtype=bool)]) == {5, 6}
    assert counts.sum() == 50_000


@pytest.mark.parametrize("clients", [4, 25])
def test_dominant_with_fewer_and_more_clients_than_classes(clients: int) -> None:
    counts = table(CIFAR, split("dominant(share=0.9)", CIFAR, 10, clients, 0))
    for label in range(10):
        own = [
            client
            for client in range(clients)
            if (client % 10 == label if clients > 10 else client == label % clients)
        ]
        assert counts[own, label].sum() == 4500
        others = np.delete(counts[:, label], own)
        assert others.sum() == 500
        assert others.max() - others.min() <= 1


def test_dirichlet_minimum_and_cap() -> None:
    """FedCOG reports sizes such as 1,280 to 8,628 of 60,000: unequal, but never below ten."""
    for seed in range(5):
        counts = table(FASHION, split("dirichlet(alpha=0.1)", FASHION, 10, 10, seed))
        sizes = counts.sum(axis=1)
        assert sizes.min() >= 10
        assert sizes.sum() == 60_000
        before_last_class = sizes - np.array([row[np.flatnonzero(row)[-1]] for row in counts])
        assert (
            before_last_class < 6000
        ).all()  # whoever held N/K samples got nothing of later classes
    free = table(FASHION, split("dirichlet(alpha=0.1, capped=False)", FASHION, 10, 10, 0)).sum(
        axis=1
    )
    assert free.max() > 12_000  # nothing keeps a client from taking most of several classes
    assert min(map(len, split("dirichlet(alpha=0.5, min_size=100)", FASHION, 10, 100, 0))) >= 100


def test_dirichlet_gives_up_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dirichlet, "ATTEMPTS", 5)
    with pytest.raises(ConfigurationError) as refused:
        split("dirichlet(alpha=0.01, min_size=400)", FASHION, 10, 100, 0)
    for words in ("5 draws", "alpha=0.01", "min_size=400", "clients=100", "set a larger alpha"):
        assert words in str(refused.value)


def test_dirichlet_all_zero_shares_are_drawn_anew() -> None:
    """With alpha 1e-5 nearly every share is exactly zero; where the only positive one is capped,
    that attempt does not count."""
    sizes = np.array([15, 5])
    draws = [
        dirichlet._draw(Dirichlet(alpha=1e-5), sizes, 2, np.random.default_rng(seed))
        for seed in range(50)
    ]
    assert any(counts is None for counts in draws)
    for counts in draws:
        assert counts is None or sorted(counts.sum(axis=1)) == [5, 15]


@pytest.mark.parametrize(("alpha", "classes_held"), [(0.01, 1.7), (0.04, 3.3), (0.16, 6.7)])
def test_dynafed(alpha: float, classes_held: float) -> None:
    """80 clients on 60,000: 746 to 758 samples each; 1.7, 3.3 and 6.7 classes on average."""
    held = []
    for seed in range(3):
        counts = table(FASHION, split(f"dirichlet-equal(alpha={alpha})", FASHION, 10, 80, seed))
        assert counts.sum() == 60_000
        assert counts.sum(axis=1).min() >= 744
        assert counts.sum(axis=1).max() <= 760
        held.append((counts > 0).sum(axis=1).mean())
    assert np.mean(held) == pytest.approx(classes_held, rel=0.1)


def test_dynafed_with_unequal_classes_and_in_order() -> None:
    labels = np.random.default_rng(1).choice(5, 10_000, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    train = make_split(labels)
    parts = split("dirichlet-equal(alpha=0.3)", train, 5, 20, 0)
    assert all(abs(len(part) - 500) <= 5 for part in parts)
    for label in range(
        5
        # cut in the order of the data set: every client's samples of a class lie before the next
        # client's
    ):
        together = np.concatenate([part[labels[part] == label] for part in parts])
        assert np.array_equal(together, np.flatnonzero(labels == label))


def test_dynafed_survives_shares_of_zero() -> None:
    """With alpha 0.001 most shares underflow; still nobody is empty and nothing divides by zero."""
    with np.errstate(all="raise", under="ignore"):
        parts = split("dirichlet-equal(alpha=0.001)", FASHION, 10, 50, 3)
    assert min(map(len, parts)) > 0
    assert sum(map(len, parts)) == 60_000


def test_an_empty_client_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"gets none of the 12 samples .*clients=12"):
        split("dirichlet-equal(alpha=5)", balanced(12, 3), 3, 12, 1)


def test_fedmdcg() -> None:
    """Omega 0.1 and ten clients: equal sizes, 2 to 9 classes per client.

    A class counts if the client has at least ten samples of it.
    """
    held = []
    for seed in range(5):
        counts = table(FASHION, split("dirichlet-client(alpha=0.1)", FASHION, 10, 10, seed))
        assert (counts.sum(axis=1) == 6000).all()
        held += (counts >= 10).sum(axis=1).tolist()
    assert 1 <= min(held) <= 3
    assert 6 <= max(held) <= 10
    assert 3 < np.mean(held) < 7


def test_fedmdcg_draws_like_a_weighted_choice() -> None:
    """One client of two drawing half of the samples: the same mean table as numpy's weighted choice
    without replacement."""
    labels = np.repeat([0, 1, 2], [30, 60, 90])
    ours, numpys = np.zeros(3), np.zeros(3)
    for seed in range(400):
        what = Division(Split(labels, labels), 3, 2, np.random.default_rng(seed))
        parts = dirichlet.dirichlet_client(DirichletClient(alpha=1), what)
        ours += np.bincount(labels[parts[0]], minlength=3) / 400
        generator = np.random.default_rng(seed)
        weights = generator.dirichlet(np.ones(3))[labels]
        numpys += (
            np.bincount(
                labels[generator.choice(180, 90, replace=False, p=weights / weights.sum())],
                minlength=3,
            )
            / 400
        )
    assert ours == pytest.approx(numpys, abs=1.5)


def test_fedlgd_domains() -> None:
    """19 domains in 3 shards with alpha 2 and at least 20 samples of every class: 57 clients, each
    of one domain."""
    samples = 19 * 1500
    train = make_split(
        np.arange(samples) % 10, domain=(np.arange(samples) // 1500).astype(np.int64)
    )
    parts = split("domains(shards=3, alpha=2.0, minimum=20)", train, 10, 57, 0)
    assert table(train, parts).min() >= 20
    assert sum(map(len, parts)) == samples
    assert [np.unique(train.columns["domain"][part]).tolist() for part in parts] == [
        [client // 3] for client in range(57)
    ]
    even = split("domains(shards=3, minimum=30)", train, 10, 57, 0)
    assert {len(part) for part in even} == {500}
    assert table(train, even).min() >= 30


@pytest.mark.parametrize(
    ("line", "clients", "words"),
    [
        ("domains", 3, "2 domains times shards=1 are 2 clients, not clients=3; set clients=2"),
        ("domains(minimum=200)", 2, "has 50 samples of class 0"),
        ("domains(shards=10, minimum=5)", 20, "never gave minimum=5"),
        ("domains(shards=2, alpha=0.01, minimum=25)", 4, "never gave minimum=25"),
        ("natural", 2, "needs the column 'user' of the data, but it has domain, writer"),
        ('natural(by="writer")', 5, "has 4 groups for clients=5; set clients to 4 or fewer"),
    ],
)
def test_columns_that_do_not_fit(line: str, clients: int, words: str) -> None:
    train = make_split(
        np.arange(200) % 2, domain=np.arange(200) // 100, writer=np.arange(200) // 50
    )
    with pytest.raises(ConfigurationError, match=words):
        split(line, train, 2, clients, 0)


def test_natural_groups_stay_whole() -> None:
    users = np.random.default_rng(0).permutation(np.arange(600) % 23)
    train = make_split(np.arange(600) % 10, user=users)
    parts = split("natural", train, 10, 5, 0)
    groups = [set(users[part]) for part in parts]
    assert sorted(user for group in groups for user in group) == list(range(23))
    assert sorted(map(len, groups)) == [4, 4, 5, 5, 5]
    one_each = split("natural", train, 10, 23, 0)
    assert all((users[part] == user).all() for user, part in enumerate(one_each))


def test_dealing_by_hand() -> None:
    labels = np.array([0, 1, 0, 1, 0])
    counts = np.array([[1, 1], [2, 0]])
    assert [part.tolist() for part in split_by_counts(labels, counts)] == [
        [0, 1],
        [2, 4],
    ]  # sample 3 belongs to nobody
    assert divide_evenly(7, 3).tolist() == [3, 2, 2]
    assert apportion(10, np.array([0.25, 0.5, 0.25, 0.0])).tolist() == [2, 5, 3, 0]
