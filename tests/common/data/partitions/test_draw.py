"""The partition whose clients draw from the whole set, and so may share samples."""

import sys

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from fedmirage.client.build import load_view
from fedmirage.common.data.partitions.named import split
from fedmirage.common.settings.config import RunConfig, configure
from tests.support.label_samples import balanced, table

LINE = "draw(per_client=20)"


def make_config(**settings: object) -> RunConfig:
    return configure({"dataset": "digits", "partition": LINE, "clients": 100_000, **settings})


def test_a_part_depends_on_seed_and_client_only() -> None:
    """Neither the number of clients nor who was asked before changes it."""
    train = balanced(1000)
    few, many = split(LINE, train, 10, 10, 0), split(LINE, train, 10, 100_000, 0)
    assert (len(few), len(many)) == (10, 100_000)
    assert all(np.array_equal(few[client], many[client]) for client in reversed(range(10)))
    assert not np.array_equal(few[0], few[1])
    assert not np.array_equal(few[0], split(LINE, train, 10, 10, 1)[0])
    assert np.array_equal(many[-1], many[99_999])
    with pytest.raises(IndexError):
        many[100_000]


def test_a_client_holds_no_sample_twice_and_clients_share_them() -> None:
    parts = split(LINE, balanced(100), 10, 50, 0)
    for part in parts:
        assert part.dtype == np.int64
        assert len(part) == 20
        assert (np.diff(part) > 0).all()
    holders = np.bincount(np.concatenate(parts), minlength=100)
    assert holders.min() > 0
    assert holders.max() > 1
    assert np.array_equal(split("draw(per_client=100)", balanced(100), 10, 2, 0)[1], np.arange(100))


def test_every_sample_is_as_likely() -> None:
    """2,000 clients with 20 of 1,000 samples: each is drawn 40 times, give or take 6.3."""
    train = balanced(1000)
    parts = split(LINE, train, 10, 2000, 0)
    holders = np.bincount(np.concatenate(parts), minlength=1000)
    assert abs((holders - 40).std() - np.sqrt(40 * 0.98)) < 0.5
    assert np.abs(holders - 40).max() < 5.5 * 6.3
    classes = table(train, parts).sum(axis=0)
    assert np.abs(classes - 4000).max() < 4 * 60


def test_parts_take_no_memory() -> None:
    assert sys.getsizeof(split(LINE, balanced(1000), 10, 100_000, 0)) < 100


@pytest.mark.parametrize("server_data", ["test", "none"])
def test_a_node_draws_the_same_and_tests_on_its_own_share(server_data: str) -> None:
    """Without data on the server, nobody counts the classes of all clients to share the tests."""
    config = make_config(server_data=server_data)
    views = [
        load_view(config, Context(1, 1, {"partition-id": client}, RecordDict(), {}))
        for client in (0, 1, 99_999)
    ]
    parts = split(LINE, views[0].dataset.train, 10, config.clients, config.seed)
    assert all(np.array_equal(view.train, parts[view.partition]) for view in views)
    assert [len(view.test_shard) for view in views] == [1, 1, 0]


def test_a_budget_says_that_it_does_not_hold_for_a_sample() -> None:
    cautions = make_config(dp="central(clip=1, noise=1)").cautions
    assert any("it does not hold for a sample" in text for text in cautions)
    assert not any("sample" in text for text in make_config().cautions)
