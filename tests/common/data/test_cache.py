"""Decoded once, mapped afterwards, rebuilt when anything is different."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data import cache
from fedmirage.common.data.files.formats import npz
from fedmirage.common.data.loading import load
from tests.support.files import labels, pictures

LINE = "npz(path='own.npz')"


@pytest.fixture
def decoded(data: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A small set, and a list that grows with every decoding."""
    np.savez(data / "own.npz", images=pictures(40, 8, 8), labels=labels(40), user=labels(40, 3))
    happened: list[Path] = []
    genuine = npz.read_npz

    def read(path: Path, **options):
        happened.append(path)
        return genuine(path, **options)

    monkeypatch.setattr(npz, "read_npz", read)
    return happened


def entry(data: Path) -> Path:
    (found,) = (data.parent / "cache").glob("npz-*")
    return found


def test_a_set_is_decoded_once(data: Path, decoded: list[Path]) -> None:
    first, second = load(LINE, data), load(LINE, data)
    assert len(decoded) == 1
    assert first.fingerprint == second.fingerprint
    for one, other in ((first.train, second.train), (first.test, second.test)):
        assert np.array_equal(one.images, other.images)
        assert np.array_equal(one.labels, other.labels)


def test_what_comes_from_the_cache_is_mapped_and_read_only(data: Path, decoded: list[Path]) -> None:
    images = load(LINE, data).train.images
    assert type(images) is np.ndarray
    assert isinstance(images.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


def test_columns_come_back_under_any_name(data: Path, decoded: list[Path]) -> None:
    name = "../site column"
    np.savez(
        data / "own.npz", images=pictures(40, 8, 8), labels=labels(40), **{name: labels(40, 3)}
    )
    line = f"npz(path='own.npz', columns=({name!r},))"
    assert (
        load(line, data).train.columns[name].tolist()
        == load(line, data).train.columns[name].tolist()
    )
    assert len(decoded) == 1


def test_changed_files_and_parameters_are_decoded_anew(data: Path, decoded: list[Path]) -> None:
    before = load(LINE, data)
    assert load("npz(path='own.npz', size=4)", data).shape == (1, 4, 4)
    np.savez(data / "own.npz", images=pictures(40, 8, 8, seed=1), labels=labels(40))
    after = load(LINE, data)
    assert len(decoded) == 3
    assert before.fingerprint != after.fingerprint


def test_a_file_of_the_same_size_with_another_time_is_noticed(
    data: Path, decoded: list[Path]
) -> None:
    load(LINE, data)
    os.utime(data / "own.npz", (1, 1))
    load(LINE, data)
    assert len(decoded) == 2


def test_normalisation_does_not_decode_again(data: Path, decoded: list[Path]) -> None:
    assert load(LINE, data).mean == (0.5,)
    assert load("npz(path='own.npz', mean=0.25, std=0.125)", data).std == (0.125,)
    assert len(decoded) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / cache.DESCRIPTION).unlink(),
        lambda folder: (folder / cache.DESCRIPTION).write_text("{"),
        lambda folder: (folder / cache.DESCRIPTION).write_text("[]"),
        lambda folder: (folder / cache.DESCRIPTION).write_text(json.dumps({"arrays": {}})),
        lambda folder: (folder / "0.npy").unlink(),
        lambda folder: (folder / "0.npy").write_bytes((folder / "0.npy").read_bytes()[:-1]),
        lambda folder: (folder / "0.npy").write_bytes(b""),
        lambda folder: np.save(folder / "0.npy", np.zeros(3)),
        lambda folder: (folder / "1.npy").write_bytes(b"\x80\x04N."),
    ],
)
def test_a_damaged_entry_is_made_again(data: Path, decoded: list[Path], damage) -> None:
    whole = load(LINE, data)
    images = np.array(whole.train.images)
    damage(entry(data))
    again = load(LINE, data)
    assert len(decoded) == 2
    assert np.array_equal(again.train.images, images)
    load(LINE, data)
    assert len(decoded) == 2
    assert [path.name for path in (data.parent / "cache").iterdir()] == [
        entry(data).name
    ]  # nothing is left behind


def test_processes_that_decode_at_once_do_not_disturb_each_other(
    data: Path, decoded: list[Path]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        fingerprints = list(pool.map(lambda _: load(LINE, data).fingerprint, range(16)))
    assert len(set(fingerprints)) == 1
    assert [path.name for path in (data.parent / "cache").iterdir()] == [entry(data).name]


def test_without_a_place_for_the_cache_the_set_is_still_there(
    data: Path,
    decoded: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (data / "a-file").write_text("")
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(data / "a-file" / "cache"))
    assert len(load(LINE, data).train) == 30
    assert "FEDMIRAGE_CACHE" in caplog.text


def test_an_empty_test_split_survives_the_cache(data: Path, decoded: list[Path]) -> None:
    line = "npz(path='own.npz', test_share=0)"
    load(line, data)
    assert load(line, data).test.images.shape == (0, 1, 8, 8)
    assert len(decoded) == 1


def test_the_fingerprint_is_of_the_content(data: Path, decoded: list[Path]) -> None:
    before = load(LINE, data).fingerprint
    (data / "elsewhere").mkdir()
    os.rename(data / "own.npz", data / "elsewhere" / "other.npz")
    assert load("npz(path='elsewhere/other.npz')", data).fingerprint == before
    np.savez(data / "own.npz", images=pictures(40, 8, 8), labels=labels(40)[::-1])
    assert load(LINE, data).fingerprint != before


def test_a_hit_imports_no_reader(data: Path) -> None:
    load("digits(size=8)", data)
    heavy = {"sklearn", "torch", "PIL", "pyarrow", "scipy"}
    code = (
        "import sys; from fedmirage.common.data.loading import load; load('digits(size=8)');"
        f" print(sorted({heavy} & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_the_copy_of_own_data_is_private_and_can_be_switched_off(
    data: Path, decoded: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = load(LINE, data)
    assert stat.S_IMODE(entry(data).stat().st_mode) == 0o700
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(data.parent / "none"))
    monkeypatch.setenv("FEDMIRAGE_CACHE_OWN", "0")
    assert np.array_equal(load(LINE, data).train.images, kept.train.images)
    assert len(decoded) == 2
    assert not (data.parent / "none").exists()
