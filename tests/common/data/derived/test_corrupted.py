"""CIFAR-10-C as a set: made from CIFAR-10, or from small files like the published ones."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedmirage.common.data.catalogue.cards import CORRUPTIONS
from fedmirage.common.data.derived import corrupted
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.named import split
from fedmirage.common.errors import ConfigurationError, DataError
from tests.support.files import labels, pictures, write_parquet

COUNT = 60  # pictures in each file here


@pytest.fixture
def cifar10(data: Path) -> np.ndarray:
    """Two different splits of CIFAR-10; returns the pictures of both."""
    both = []
    for seed, part in enumerate(("train", "test")):
        images = pictures(COUNT, 32, 32, 3, seed=seed)
        write_parquet(data / f"cifar10/{part}.parquet", images, {"label": labels(COUNT)}, "img")
        both.append(images.transpose(0, 3, 1, 2))
    return np.stack(both)


@pytest.fixture
def published(data: Path) -> np.ndarray:
    """The published files of twenty pictures, whose first pixel tells corruption, severity and
    picture."""
    numbers = labels(20)
    np.save(folder(data) / "labels.npy", np.tile(numbers, 5).astype(np.uint8))
    for kind, name in enumerate(CORRUPTIONS):
        images = np.zeros((5, 20, 32, 32, 3), np.uint8)
        images[..., 0, 0, 0] = kind
        images[..., 0, 0, 1] = np.arange(1, 6)[:, None]
        images[..., 0, 0, 2] = np.arange(20)
        np.save(folder(data) / f"{name}.npy", images.reshape(-1, 32, 32, 3))
    return numbers


def folder(data: Path) -> Path:
    (data / "CIFAR-10-C").mkdir(exist_ok=True)
    return data / "CIFAR-10-C"


def test_every_picture_has_one_corruption_and_keeps_its_label(
    data: Path, cifar10: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With corruptions that change nothing, the pictures of CIFAR-10 come out, each once."""
    monkeypatch.setattr(corrupted, "corrupt", lambda images, *_: images)
    made = load("cifar10-c", data)
    assert made.domains == CORRUPTIONS
    for part, genuine in ((made.train, cifar10[0]), (made.test, cifar10[1])):
        ours = sorted(zip(map(np.ndarray.tobytes, part.images), part.labels, strict=True))
        theirs = sorted(zip(map(np.ndarray.tobytes, genuine), labels(COUNT), strict=True))
        assert ours == theirs
        assert np.ptp(np.bincount(part.columns["domain"], minlength=19)) <= 1


def test_pictures_are_corrupted_as_their_columns_tell(data: Path, cifar10: np.ndarray) -> None:
    line = "cifar10-c(corruptions=('contrast', 'pixelate'), overlap=True)"
    made = load(line, data)
    assert made.domains == ("contrast", "pixelate")
    assert len(made.train) == 2 * COUNT
    assert np.array_equal(made.train.labels, np.tile(labels(COUNT), 2))
    assert np.bincount(made.train.columns["severity"]).tolist() == [0, *[2 * COUNT // 5] * 5]
    generator = torch.Generator()  # neither of the two draws anything
    for number in range(0, 2 * COUNT, 7):
        name = made.domains[made.train.columns["domain"][number]]
        severity = int(made.train.columns["severity"][number])
        clean = torch.from_numpy(cifar10[0][number % COUNT][None])
        expected = corrupted.corrupt(clean, name, severity, generator)[0]
        assert np.array_equal(made.train.images[number], expected.numpy())


def test_severity_size_and_seed(data: Path, cifar10: np.ndarray) -> None:
    strong = load("cifar10-c(corruptions='fog', severity=5, size=28)", data)
    assert strong.shape == (3, 28, 28)
    assert set(strong.train.columns["severity"].tolist()) == {5}
    prints = {
        load(f"cifar10-c(corruptions='fog'{more})", data).fingerprint
        for more in ("", ", seed=1", ", severity=1")
    }
    assert len(prints) == 3


def test_nothing_depends_on_where_it_is_made(
    data: Path, cifar10: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load("cifar10-c", data).fingerprint
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "another"))
    torch.manual_seed(3)
    assert load("cifar10-c", data).fingerprint == before


def test_published_files_keep_pictures_of_both_splits_apart(
    data: Path, published: np.ndarray
) -> None:
    """Ten classes of two pictures: a tenth of two rounds to none, so that a share of a half is
    taken here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corrupted, "TEST_SHARE", 0.5)
        whole = load("cifar10-c(published=True, overlap=True)", data)
        split = load("cifar10-c(published=True)", data)
    for made in (whole, split):
        shown = []
        for part in (made.train, made.test):
            kind, severity, picture = part.images[:, :, 0, 0].T
            assert np.array_equal(kind, part.columns["domain"])
            assert np.array_equal(severity, part.columns["severity"])
            assert np.array_equal(published[picture], part.labels)
            shown.append(set(picture.tolist()))
        assert not shown[0] & shown[1]
        assert shown[0] | shown[1] == set(range(20))
    assert len(whole.train) == 19 * 5 * 10
    assert len(split.train) == 5 * 10  # every picture in one domain, at all severities
    picture, kind = split.train.images[:, 2, 0, 0], split.train.columns["domain"]
    assert all(len(set(kind[picture == number].tolist())) == 1 for number in set(picture.tolist()))


def test_fedlgd_deals_every_corruption_into_dirichlet_shards(
    data: Path, cifar10: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrupted, "corrupt", lambda images, *_: images)
    made = load("cifar10-c(overlap=True)", data)
    parts = split("domains(shards=3, alpha=2, minimum=1)", made.train, 10, 57, seed=0)
    assert len(parts) == 57
    for client, part in enumerate(parts):
        assert set(made.train.columns["domain"][part].tolist()) == {client // 3}
        assert np.bincount(made.train.labels[part], minlength=10).min() >= 1
    with pytest.raises(ConfigurationError, match="19 domains times shards=3 are 57 clients"):
        split("domains(shards=3, alpha=2)", made.train, 10, 19, seed=0)


def test_what_is_wrong_is_told(data: Path, published: np.ndarray) -> None:
    with pytest.raises(ConfigurationError, match="'rain' is none of them; choose from"):
        load("cifar10-c(corruptions=('rain',))", data)
    with pytest.raises(DataError, match=r"cifar10 \(needed for cifar10-c\) was not found"):
        load("cifar10-c", data)
    np.save(folder(data) / "fog.npy", np.zeros((100, 28, 28, 3), np.uint8))
    with pytest.raises(DataError, match=r"fog.npy holds uint8 of \(100, 28, 28, 3\)"):
        load("cifar10-c(published=True)", data)
    (folder(data) / "fog.npy").unlink()
    with pytest.raises(DataError, match=r"looked for labels\.npy and one \.npy file per"):
        load("cifar10-c(published=True)", data)
    assert load("cifar10-c(published=True, corruptions='snow')", data).domains == ("snow",)
    np.save(folder(data) / "labels.npy", np.arange(100) % 7)
    with pytest.raises(DataError, match="not the same ones for each of five severities"):
        load("cifar10-c(published=True, corruptions='snow')", data)
