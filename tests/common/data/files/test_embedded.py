"""The sets that need no file."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data.loading import load


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for this file: decoding the digits once is enough."""
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path_factory.getbasetemp() / "embedded-cache"))


def test_digits_are_28_pixels_wide_and_split_evenly() -> None:
    digits = load("digits")
    assert digits.shape == (1, 28, 28)
    assert (len(digits.train), len(digits.test)) == (1438, 359)
    assert digits.task == "single-label"
    assert digits.classes == tuple("0123456789")
    shares = np.bincount(digits.test.labels) / np.bincount(
        np.concatenate([digits.train.labels, digits.test.labels])
    )
    assert np.abs(shares - 0.2).max() < 0.01
    assert digits.train.images.dtype == np.uint8
    assert digits.train.labels.dtype == np.int64


def test_digits_of_8_pixels_are_the_genuine_ones() -> None:
    from sklearn.datasets import load_digits

    digits = load("digits(size=8)")
    ours = np.concatenate([digits.train.images, digits.test.images])[:, 0]
    genuine = np.rint(load_digits().images * 255 / 16).astype(np.uint8)
    assert sorted(image.tobytes() for image in ours) == sorted(image.tobytes() for image in genuine)


def test_no_digit_is_in_both_splits() -> None:
    """All but a few of the genuine digits are different from each other; those few may repeat
    within a class."""
    digits = load("digits(size=8)")
    train, test = (
        {image.tobytes() for image in split.images} for split in (digits.train, digits.test)
    )
    assert not train & test


def test_channels_and_normalisation_follow_each_other() -> None:
    assert load("digits(channels=3)").shape == (3, 28, 28)
    assert load("digits(channels=3)").mean == (0.3053,) * 3
    assert load("digits(channels=3, mean=(0.1, 0.2, 0.3), std=2)").mean == (0.1, 0.2, 0.3)
    assert load("digits(channels=3, mean=(0.1, 0.2, 0.3), std=2)").std == (2.0,) * 3


def test_limit_takes_a_part_of_the_same_samples() -> None:
    whole, part, smaller = load("digits"), load("digits(limit=300)"), load("digits(limit=100)")
    assert (len(part.train), len(part.test)) == (300, 200)
    everything = {image.tobytes() for image in whole.train.images}
    chosen = {image.tobytes() for image in part.train.images}
    assert chosen <= everything
    assert {image.tobytes() for image in smaller.train.images} <= chosen
    assert len(set(part.train.labels.tolist())) == 10
    assert len({whole.fingerprint, part.fingerprint, smaller.fingerprint}) == 3
    assert len(load("digits(limit=99999)").train) == len(whole.train)


def test_several_digits_in_a_picture() -> None:
    multi = load("digits-multi(train=60, test=30)")
    assert multi.task == "multi-label"
    assert multi.shape == (1, 28, 28)
    assert multi.train.labels.shape == (60, 10)
    assert multi.train.labels.dtype == np.uint8
    assert set(multi.train.labels.sum(axis=1).tolist()) == {1, 2, 3}
    for image, label in zip(multi.train.images[:, 0], multi.train.labels, strict=True):
        cells = image.reshape(2, 14, 2, 14).max(axis=(1, 3))
        assert (cells > 0).sum() == label.sum()  # a cell a digit, none on top of another


def test_several_digits_show_test_digits_in_test_pictures_only() -> None:
    twelve = load("digits(size=12)")
    train, test = (
        {image.tobytes() for image in split.images} for split in (twelve.train, twelve.test)
    )
    for split, own, other in zip(
        (load("digits-multi").train, load("digits-multi").test),
        (train, test),
        (test, train),
        strict=True,
    ):
        for picture in split.images[:20, 0]:
            windows = np.lib.stride_tricks.sliding_window_view(picture, (12, 12)).reshape(
                -1, 12, 12
            )
            shown = {window.tobytes() for window in windows}
            assert shown & own
            assert not shown & other


def test_the_seed_chooses_the_pictures() -> None:
    line = "digits-multi(train=20, test=10, seed={})"
    assert (
        load(line.format(0)).fingerprint
        == load(line.format(0)).fingerprint
        != load(line.format(1)).fingerprint
    )


def test_the_data_do_not_depend_on_where_they_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server and its nodes compare fingerprints, so decoding again must give the same bytes."""
    before = {
        line: load(line).fingerprint
        for line in ("digits(limit=100)", "digits-multi(train=20, test=10)")
    }
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path))
    assert {line: load(line).fingerprint for line in before} == before
