"""Inputs of any fixed shape from .npz and parquet files, and the made set of signals."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fedmirage.common.data.batches import Resident
from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError, DataError

INPUTS = np.random.default_rng(0).normal(3, 2, (20, 2, 5)).astype(np.float32)
LABELS = np.arange(20) % 2


def save(path: Path, **arrays: Any) -> str:
    """Write an .npz file, and return the line that names it."""
    np.savez(path / "data.npz", **{"x": INPUTS, "y": LABELS, **arrays})
    return f"npz(path='{path}/data.npz', inputs='tensors')"


def test_an_npz_file_of_signals(tmp_path: Path) -> None:
    dataset = load(save(tmp_path))
    assert dataset.shape == (2, 5)
    assert not dataset.pictures
    assert (dataset.mean, dataset.std) == ((0.0, 0.0), (1.0, 1.0))
    rows = np.concatenate([dataset.train.images, dataset.test.images])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, INPUTS))


def test_a_parquet_file_has_the_same_content(tmp_path: Path) -> None:
    table = pa.table({"image": INPUTS.tolist(), "label": LABELS})
    pq.write_table(table, tmp_path / "data.parquet")
    found = load(f"parquet(path='{tmp_path}/data.parquet', inputs='tensors')")
    assert found.fingerprint == load(save(tmp_path)).fingerprint


def test_mean_and_std_of_the_line_normalise_every_channel(tmp_path: Path) -> None:
    line = save(tmp_path).replace(")", ", mean=(1.0, 2.0), std=(2.0, 4.0))")
    dataset = load(line)
    resident = Resident.load(dataset.train, np.arange(3), mean=dataset.mean, std=dataset.std)
    raw = torch.tensor(dataset.train.images[:3])
    assert torch.allclose(resident.images[:, 1], (raw[:, 1] - 2) / 4)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x": INPUTS.astype(str)}, "save numbers"),
        ({"x": INPUTS[:, 0, 0]}, r"must be \(samples, ...\)"),
        ({"x": np.where(np.arange(20)[:, None, None] < 3, np.nan, INPUTS)}, "3 of the 20 inputs"),
        ({"y": LABELS * 0}, "only one class in its 20 samples"),
        ({"x": INPUTS[:1], "y": LABELS[:1]}, "only one class in its 1 samples"),
        ({"y": np.where(LABELS, np.nan, 0)}, "train split: the labels are float64"),
        ({"x_test": INPUTS[:, :, 1:], "y_test": LABELS}, "the inputs have the shape 2x4, those of"),
        ({"y": LABELS[:7]}, "20 inputs but 7 labels"),
    ],
)
def test_what_cannot_be_read(arrays: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason):
        load(save(tmp_path, **arrays))


def test_lists_of_unlike_length_and_texts_are_refused(tmp_path: Path) -> None:
    for values, reason in (([[1.0], [1.0, 2.0]], "2 different lengths"), (["a", "b"], "not lists")):
        pq.write_table(pa.table({"image": values, "label": [0, 1]}), tmp_path / "data.parquet")
        with pytest.raises(DataError, match=reason):
            load(f"parquet(path='{tmp_path}/data.parquet', inputs='tensors')")


def test_keys_of_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="size= is for pictures"):
        load(save(tmp_path).replace(")", ", size=28)"))


def test_waves_are_made_from_their_seed() -> None:
    one, same, other = (load(f"waves(seed={seed})") for seed in (0, 0, 1))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.shape == (3, 64)
    assert np.bincount(one.train.labels).tolist() == [200] * 6
    assert np.bincount(one.train.columns["domain"]).tolist() == [240] * 5
    inputs = Resident.load(one.train, np.arange(1200), mean=one.mean, std=one.std).images
    assert torch.allclose(inputs.mean((0, 2)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(inputs.std((0, 2)), torch.ones(3), atol=1e-2)
