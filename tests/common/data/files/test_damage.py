"""Files that a disk or a download has damaged, and files that were made to fill the memory."""

import bz2
import gzip
import io
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from fedmirage.common.data.files import genuine
from fedmirage.common.data.loading import load
from fedmirage.common.errors import DataError, FedmirageError
from tests.support.files import (
    labels,
    pictures,
    png,
    python2_pickle,
    write_files,
    write_idx,
    write_parquet,
    write_tar,
)


def make_idx(folder: Path) -> str:
    write_idx(folder / "mnist", pictures(30, 28, 28), labels(30), genuine.IDX_NAMES)
    return "mnist"


def make_packed_idx(folder: Path) -> str:
    write_idx(folder / "mnist", pictures(30, 28, 28), labels(30), genuine.IDX_NAMES, compress=True)
    return "mnist"


def make_pickles(folder: Path) -> str:
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    batch = python2_pickle(
        {b"data": pictures(10, 3072), b"labels": list(range(10)), b"batch_label": [b"x"]}
    )
    write_files(folder, {f"cifar-10-batches-py/{name}": batch for name in names})
    return "cifar10"


def make_tar(folder: Path) -> str:
    make_pickles(folder / "loose")
    files = {str(path.relative_to(folder / "loose")): path for path in folder.rglob("*_batch*")}
    write_tar(folder / "cifar-10-python.tar.gz", {n: p.read_bytes() for n, p in files.items()})
    shutil.rmtree(folder / "loose")
    return "cifar10"


def make_zip(folder: Path) -> str:
    picture = png(pictures(1, 64, 64, 3)[0])
    files = {
        f"tiny-imagenet-200/train/n{kind:08d}/images/{kind}.png": picture for kind in range(200)
    }
    files["tiny-imagenet-200/val/images/0.png"] = picture
    files["tiny-imagenet-200/val/val_annotations.txt"] = b"0.png\tn00000000\t0\t0\t9\t9\n"
    with zipfile.ZipFile(folder / "tiny-imagenet-200.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return "tiny-imagenet"


def make_text(folder: Path) -> str:
    line = " ".join(f"{place}:{place / 300:.2f}" for place in range(1, 257))
    text = "".join(f"{number % 10 + 1} {line}\n" for number in range(20)).encode()
    write_files(folder, dict.fromkeys(("usps.bz2", "usps.t.bz2"), bz2.compress(text)))
    return "usps"


def make_matlab(folder: Path) -> str:
    content = {"X": pictures(32, 32, 3, 20), "y": labels(20)[:, None] + 1}
    for name in ("train_32x32.mat", "test_32x32.mat"):
        savemat(folder / name, content, do_compression=True)
    return "svhn"


def make_parquet(folder: Path) -> str:
    write_parquet(folder / "own.parquet", pictures(20, 12, 12), {"label": labels(20, 4)})
    return "parquet(path='own.parquet')"


def make_lists(folder: Path) -> str:
    rows = [[number % 3, 3] for number in range(20)]
    write_parquet(folder / "own.parquet", pictures(20, 12, 12), {"label": rows})
    return "parquet(path='own.parquet')"


def make_npz(folder: Path) -> str:
    np.savez_compressed(folder / "own.npz", images=pictures(20, 12, 12), labels=labels(20, 4))
    return "npz(path='own.npz')"


def make_folders(folder: Path) -> str:
    for number, picture in enumerate(pictures(12, 12, 12)):
        write_files(folder / "own", {f"{number % 3}/{number}.png": png(picture)})
    return "imagefolder(path='own')"


MAKERS = [
    *(make_idx, make_packed_idx, make_pickles, make_tar, make_zip, make_text),
    *(make_matlab, make_parquet, make_lists, make_npz, make_folders),
]


def damage(content: bytes, rng: random.Random) -> bytes:
    """Cut, flip, overwrite or repeat a part, near the beginning as often as anywhere."""
    changed = bytearray(content)
    at = rng.randrange(rng.choice([min(64, len(content)), len(content)]))
    kind = rng.randrange(5)
    if kind == 0:
        return content[:at]
    if kind == 1:
        for _ in range(rng.choice([1, 10, 100])):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    if kind == 2:
        changed[at] = rng.randrange(256)
    if kind == 3:
        changed[at : at + rng.choice([4, 100, 1000])] = bytes(rng.choice([4, 100, 1000]))
    if kind == 4:
        changed[at:at] = rng.randbytes(rng.choice([1, 8, 300]))
    return bytes(changed)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("trials", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_a_damaged_file_is_a_sentence_or_a_set(
    data: Path, make: Callable[[Path], str], trials: int
) -> None:
    rng = random.Random(f"{make.__name__} {trials}")
    data.mkdir(exist_ok=True)
    line = make(data)
    files = sorted(path for path in data.rglob("*") if path.is_file())
    load(line, data)
    refused = 0
    for number in range(trials):
        file = rng.choice(files)
        whole = file.read_bytes()
        file.write_bytes(damage(whole, rng))
        try:
            load(line, data)
        except FedmirageError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"trial {number}: {file}") from error
        file.write_bytes(whole)
    assert refused


def test_lists_of_labels_cannot_ask_for_any_amount_of_memory(data: Path) -> None:
    """One 0 or 1 per class and sample would be ten gigabytes."""
    rows = [[number] for number in range(9)] + [[10**9]]
    write_parquet(data / "own.parquet", pictures(10, 12, 12), {"label": rows})
    with pytest.raises(DataError, match="go up to 1000000000, but hold 10 numbers in all"):
        load("parquet(path='own.parquet')", data)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["a", None]] * 4, "a label is None; lists must hold names"),
        ([[None]] * 4, "a label is None"),
        ([["a"], ["b" * 2000]] * 2, "has 2000 characters; shorten it"),
        (["a", "b" * 10**6] * 2, "has 1000000 characters; shorten it"),
    ],
)
def test_labels_that_name_no_class(data: Path, rows: list[Any], words: str) -> None:
    write_parquet(data / "own.parquet", pictures(4, 12, 12), {"label": rows})
    with pytest.raises(DataError, match=words):
        load("parquet(path='own.parquet')", data)


def test_no_more_is_unpacked_than_a_file_promises(data: Path) -> None:
    """A thousandth of the file would be enough: zeros are packed a thousandfold."""
    make_packed_idx(data)
    bomb = io.BytesIO()
    with gzip.open(bomb, "wb", 1) as file:
        file.write(struct.pack(">HBBIII", 0, 8, 3, 30, 28, 28) + bytes(2**24))
    path = data / "mnist" / f"{genuine.IDX_NAMES[0]}.gz"
    path.write_bytes(bomb.getvalue())
    with pytest.raises(DataError, match="promises 30x28x28 bytes: it has more"):
        load("mnist", data)
    path.write_bytes(gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 2**30, 28, 28)))
    with pytest.raises(DataError, match=r"would take 784\.0 GiB"):
        load("mnist", data)


def test_more_text_than_usps_has_is_not_unpacked(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.common.data.files.formats.published.USPS_BYTES", 1000)
    with pytest.raises(DataError, match="get the genuine file"):
        load(make_text(data), data)


def test_a_list_of_labels_that_is_not_utf_8_is_named(data: Path) -> None:
    line = make_zip(data)
    with zipfile.ZipFile(data / "tiny-imagenet-200.zip") as archive:
        archive.extractall(data)
    (data / "tiny-imagenet-200.zip").unlink()
    (data / "tiny-imagenet-200/val/val_annotations.txt").write_bytes(b"0.png\tn\xff\n")
    with pytest.raises(DataError, match=r"val_annotations\.txt is damaged or is not a text in UTF"):
        load(line, data)
