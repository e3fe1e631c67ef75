"""The view that one client has of the data, and the batches that it trains on."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmirage.common.data.batches import Resident, batches, normalise
from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.data.view import view
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.seeds import torch_generator


def make_dataset(
    train: int = 300, test: int = 101, channels: int = 1, several: bool = False
) -> DataSet:
    """Random pictures of 6 by 5 pixels with four classes."""
    generator = np.random.default_rng(0)

    def make_split(samples: int) -> Split:
        images = generator.integers(0, 256, (samples, channels, 6, 5)).astype(np.uint8)
        labels = (
            generator.integers(0, 2, (samples, 4)).astype(np.uint8)
            if several
            else generator.integers(0, 4, samples)
        )
        images.setflags(write=False)  # as a map of the cache is
        return Split(images, labels)

    task = "multi-label" if several else "single-label"
    return DataSet(
        "random",
        make_split(train),
        make_split(test),
        ("a", "b", "c", "d"),
        task,
        (0.5,) * channels,
        (0.25,) * channels,
        "-",
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.floats(0, 0.99), st.integers(0, 5), st.integers(0, 100))
def test_validation_is_never_trained_on(
    samples: int, share: float, partition: int, seed: int
) -> None:
    dataset = make_dataset()
    indices = np.sort(np.random.default_rng(seed).choice(300, samples, replace=False))
    seen = view(dataset, indices, partition, 6, share, seed)
    assert np.array_equal(np.sort(np.concatenate([seen.train, seen.validation])), indices)
    assert len(seen.train) >= 1
    assert len(seen.validation) == 0 if share == 0 or samples == 1 else len(seen.validation) >= 1
    assert abs(len(seen.validation) - share * samples) <= 1
    assert np.array_equal(
        seen.class_counts, np.bincount(dataset.train.labels[seen.train], minlength=4)
    )
    again = view(dataset, indices, partition, 6, share, seed)
    assert np.array_equal(seen.train, again.train)
    assert np.array_equal(seen.test_shard, again.test_shard)


@pytest.mark.parametrize("clients", [1, 4, 101, 150])
def test_the_test_set_is_divided(clients: int) -> None:
    dataset = make_dataset()
    shards = [
        view(dataset, np.arange(3), partition, clients, 0.0, 0).test_shard
        for partition in range(clients)
    ]
    assert np.array_equal(np.sort(np.concatenate(shards)), np.arange(101))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    other_seed = view(dataset, np.arange(3), 0, clients, 0.0, 1).test_shard
    assert clients == 1 or not np.array_equal(shards[0], other_seed)


def test_clients_and_seeds_hold_back_other_samples() -> None:
    dataset, indices = make_dataset(), np.arange(100)
    held = [
        view(dataset, indices, partition, 2, 0.2, seed).validation
        for partition, seed in ((0, 0), (1, 0), (0, 1))
    ]
    assert not np.array_equal(held[0], held[1])
    assert not np.array_equal(held[0], held[2])


def test_several_labels_are_counted_each() -> None:
    dataset = make_dataset(several=True)
    seen = view(dataset, np.arange(50), 0, 1, 0.0, 0)
    assert np.array_equal(seen.class_counts, dataset.train.labels[:50].astype(int).sum(axis=0))
    assert Resident.load(dataset.train, seen.train).labels.dtype == torch.float32


def test_a_client_beyond_the_last_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="from 0 to 2"):
        view(make_dataset(), np.arange(10), 3, 3, 0.1, 0)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_resident_holds_the_indexed_samples(
    channels: int, memory_format: torch.memory_format
) -> None:
    dataset, indices = make_dataset(channels=channels), np.array([7, 0, 299, 12])
    resident = Resident.load(dataset.train, indices, "cpu", memory_format)
    assert len(resident) == 4
    assert resident.images.dtype == torch.uint8
    images, labels = resident.take(torch.tensor([2, 0, 2]))
    assert images.is_contiguous(memory_format=memory_format)
    assert np.array_equal(images.numpy(), dataset.train.images[[299, 7, 299]])
    assert np.array_equal(labels.numpy(), dataset.train.labels[[299, 7, 299]])
    resident.images[0] = 0  # its own memory: the data set is untouched
    assert dataset.train.images[7].any()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("given_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("wanted_format", [torch.contiguous_format, torch.channels_last])
def test_normalising(
    channels: int, given_format: torch.memory_format, wanted_format: torch.memory_format
) -> None:
    mean, std = (0.1, 0.4, 0.7)[:channels], (0.2, 0.3, 0.5)[:channels]
    images = torch.from_numpy(make_dataset(channels=channels).train.images.copy()).contiguous(
        memory_format=given_format
    )
    result = normalise(images, mean, std, wanted_format)
    expected = (images.double() / 255 - torch.tensor(mean).view(-1, 1, 1)) / torch.tensor(std).view(
        -1, 1, 1
    )
    assert result.dtype == torch.float32
    assert result.is_contiguous(memory_format=wanted_format)
    assert torch.allclose(result.double(), expected, atol=1e-5)
    assert images.dtype == torch.uint8


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 25), st.integers(0, 1000))
def test_exactly_so_many_steps(samples: int, batch_size: int, steps: int, seed: int) -> None:
    drawn = list(batches(samples, torch_generator(seed, "batches"), batch_size, steps=steps))
    assert len(drawn) == steps
    for one_pass in _passes(drawn, math.ceil(samples / batch_size)):
        together = torch.cat(one_pass)
        assert len(together.unique()) == len(together)  # no sample twice within a pass
        assert all(len(batch) == batch_size for batch in one_pass[:-1])
        if len(one_pass) == math.ceil(samples / batch_size):
            assert torch.equal(together.sort().values, torch.arange(samples))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 4))
def test_epochs_are_passes(samples: int, batch_size: int, epochs: int) -> None:
    steps = epochs * math.ceil(samples / batch_size)
    by_epochs = list(batches(samples, torch_generator(0, "batches"), batch_size, epochs=epochs))
    by_steps = list(batches(samples, torch_generator(0, "batches"), batch_size, steps=steps))
    assert len(by_epochs) == steps
    assert all(torch.equal(one, other) for one, other in zip(by_epochs, by_steps, strict=True))


def test_passes_are_shuffled_anew() -> None:
    first, second = batches(50, torch_generator(0, "batches"), 50, epochs=2)
    assert not torch.equal(first, second)
    assert torch.equal(first, next(batches(50, torch_generator(0, "batches"), 50, steps=1)))


def test_a_set_smaller_than_a_batch_is_one_batch() -> None:
    found = batches(1, torch_generator(0, "batches"), 8, steps=3)
    assert [index.tolist() for index in found] == [[0], [0], [0]]


@pytest.mark.parametrize(
    ("samples", "batch_size", "count"),
    [(5, 2, {}), (5, 2, {"steps": 1, "epochs": 1}), (0, 2, {"steps": 1}), (5, 0, {"steps": 1})],
)
def test_senseless_batches_are_refused(
    samples: int, batch_size: int, count: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="batches"):
        next(batches(samples, torch_generator(0, "batches"), batch_size, **count))


def _passes(drawn: list[torch.Tensor], per_pass: int) -> Iterator[list[torch.Tensor]]:
    for start in range(0, len(drawn), per_pass):
        yield drawn[start : start + per_pass]
