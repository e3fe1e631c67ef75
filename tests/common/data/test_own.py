"""Folders of pictures and arrays of one's own."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedmirage.common.data.files.decoding import arrange, decode
from fedmirage.common.data.files.raw import PictureForm
from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError, DataError
from tests.support.files import labels, pictures, png, write_files

GREY = np.zeros((8, 8), np.uint8)


def folder_files(*kinds: str, count: int = 10, prefix: str = "") -> dict[str, bytes]:
    return {
        f"{prefix}{kind}/{n:03}.png": png(np.full((12, 12, 3), 10 * number + n, np.uint8))
        for number, kind in enumerate(kinds)
        for n in range(count)
    }


def test_a_folder_a_class(data: Path) -> None:
    write_files(
        data / "pets",
        folder_files("dog", "cat")
        | {
            "notes.txt": b"",
            "dog/.hidden.png": b"",
            "cat/readme.md": b"",
        },
    )
    loaded = load("imagefolder(path='pets')", data)
    assert loaded.classes == ("cat", "dog")
    assert loaded.shape == (3, 12, 12)
    assert (len(loaded.train), len(loaded.test)) == (16, 4)
    assert np.array_equal(loaded.train.labels, loaded.train.images[:, 0, 0, 0] < 10)


def test_train_and_test_folders(data: Path) -> None:
    write_files(
        data / "pets",
        folder_files("cat", "dog", prefix="train/")
        | folder_files("cat", "dog", count=3, prefix="val/"),
    )
    loaded = load("imagefolder(path='pets')", data)
    assert (len(loaded.train), len(loaded.test)) == (20, 6)


def test_a_node_without_some_classes_counts_like_the_others(data: Path) -> None:
    write_files(data / "mine", folder_files("dog"))
    loaded = load("imagefolder(path='mine', classes=('cat', 'dog'))", data)
    assert set(loaded.train.labels.tolist()) == {1}
    write_files(data / "numbers", folder_files("3"))
    assert set(load("imagefolder(path='numbers', classes=5)", data).train.labels.tolist()) == {3}
    with pytest.raises(DataError, match="the folder 'dog' is none of the classes cat, cow"):
        load("imagefolder(path='mine', classes=('cat', 'cow'))", data)


def test_pictures_of_several_sizes_and_colours_need_a_word(data: Path) -> None:
    write_files(
        data / "mixed", folder_files("cat", "dog") | {"dog/zz.png": png(pictures(1, 30, 20)[0])}
    )
    with pytest.raises(
        DataError,
        match=(
            r"zz.png is 30x20 with 1 channel, .* 12x12 with 3 channels; write channels=3, size=12"
        ),
    ):
        load("imagefolder(path='mixed')", data)
    assert load("imagefolder(path='mixed', size=10, channels=1)", data).shape == (1, 10, 10)


def test_a_folder_that_is_not_there_or_empty_or_a_file(data: Path) -> None:
    with pytest.raises(
        DataError, match=r"path='nowhere'.*neither .*data/nowhere nor .*nowhere exists"
    ):
        load("imagefolder(path='nowhere')", data)
    (data / "empty").mkdir()
    with pytest.raises(DataError, match="has no <class>/<picture>"):
        load("imagefolder(path='empty')", data)
    (data / "file").write_text("x")
    with pytest.raises(DataError, match="is a file"):
        load("imagefolder(path='file')", data)


def test_damaged_and_deep_pictures_are_named(data: Path) -> None:
    files = folder_files("cat", "dog")
    whole = png(pictures(1, 12, 12, 3)[0])
    write_files(data / "pets", files | {"cat/cut.png": whole[: len(whole) // 2]})
    with pytest.raises(DataError, match=r"cut.png is not a readable picture"):
        load("imagefolder(path='pets')", data)
    (data / "pets" / "cat" / "cut.png").write_bytes(b"text")
    with pytest.raises(DataError, match=r"cut.png is not a readable picture \(PNG, JPEG"):
        load("imagefolder(path='pets')", data)
    Image.fromarray(np.zeros((12, 12), np.uint16)).save(data / "pets" / "cat" / "cut.png")
    with pytest.raises(DataError, match="more than 8 bits"):
        load("imagefolder(path='pets')", data)


def save(data: Path, **arrays: Any) -> str:
    np.savez(data / "own.npz", **arrays)
    return "npz(path='own.npz')"


@pytest.mark.parametrize(
    "names",
    [
        ("train_images", "train_labels", "test_images", "test_labels"),
        ("x_train", "y_train", "x_test", "y_test"),
    ],
)
def test_arrays_with_both_splits(data: Path, names: tuple[str, ...]) -> None:
    images, numbers = pictures(20, 8, 8), labels(20)
    loaded = load(
        save(data, **dict(zip(names, (images, numbers, images[:5], numbers[:5]), strict=True))),
        data,
    )
    assert np.array_equal(loaded.train.images[:, 0], images)
    assert np.array_equal(loaded.test.labels, numbers[:5])


@pytest.mark.parametrize(
    ("shape", "axes", "result"),
    [
        ((20, 8, 9), (0, 1, 2), (1, 8, 9)),
        ((20, 8, 9, 3), (0, 3, 1, 2), (3, 8, 9)),
        ((20, 3, 8, 9), (0, 1, 2, 3), (3, 8, 9)),
    ],
)
def test_where_the_channels_may_stand(
    data: Path, shape: tuple[int, ...], axes: tuple[int, ...], result: tuple[int, ...]
) -> None:
    images = pictures(*shape)
    loaded = load(
        save(data, images=images, labels=labels(20)).replace(")", ", test_share=0)"), data
    )
    assert loaded.shape == result
    assert np.array_equal(
        loaded.train.images.reshape(20, -1), images.transpose(axes).reshape(20, -1)
    )


def test_floats_from_0_to_1_become_bytes(data: Path) -> None:
    images = pictures(20, 8, 8)
    loaded = load(
        save(data, x=images / 255, y=labels(20)[:, None]).replace(")", ", test_share=0)"), data
    )
    assert np.array_equal(loaded.train.images[:, 0], images)
    assert loaded.task == "single-label"  # one column of numbers is one label


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"images": pictures(20, 8, 8) / 1.0}, r"floats outside \[0, 1\]; scale them"),
        ({"images": np.full((20, 8, 8), np.nan)}, "scale them"),
        ({"images": pictures(20, 8, 8).astype(np.int64)}, "holds int64"),
        ({"images": pictures(20, 8)}, r"shape \(20, 8\)"),
        ({"images": pictures(20, 8, 8, 4)}, "1 or 3 channels"),
        ({"images": pictures(19, 8, 8)}, "19 pictures but 20 labels"),
        ({"images": pictures(0, 8, 8), "labels": labels(0)}, "no training sample"),
        ({"images": pictures(20, 8, 8), "labels": labels(20) * 0.5}, "not whole numbers"),
        ({"images": pictures(20, 8, 8), "labels": np.array(["a", "b"] * 10)}, "not whole numbers"),
        ({"images": pictures(20, 8, 8), "labels": labels(20)[:, None] * [1, 2]}, "must be 0 or 1"),
        (
            {
                "images": pictures(20, 8, 8),
                "test_images": pictures(4, 9, 9),
                "test_labels": labels(4),
            },
            "the training pictures are 1x8x8",
        ),
        ({"pixels": pictures(20, 8, 8)}, "it needs one of these pairs"),
    ],
)
def test_bad_arrays(data: Path, arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        load(save(data, **({"labels": labels(20)} | arrays)), data)


def test_objects_in_a_npz_file_are_not_opened(data: Path) -> None:
    with pytest.raises(DataError, match="without pickled objects"):
        load(save(data, images=np.array([{}] * 20, object), labels=labels(20)), data)
    (data / "own.npz").write_bytes(b"PK\x03\x04rubbish")
    with pytest.raises(DataError, match="damaged"):
        load("npz(path='own.npz')", data)


def test_several_labels_and_columns(data: Path) -> None:
    indicators = np.eye(5, dtype=bool)[labels(20, 5)]
    users = np.array(["u2", "u1"] * 10)
    line = save(data, images=pictures(20, 8, 8), labels=indicators, user=users).replace(
        ")", ", columns=('user',))"
    )
    loaded = load(line, data)
    assert loaded.task == "multi-label"
    assert loaded.train.labels.shape == (16, 5)
    assert set(loaded.train.columns["user"].tolist()) == {0, 1}
    with pytest.raises(DataError, match="no array train_site"):
        load(line.replace("user", "site"), data)


def test_limit_does_not_change_the_classes(data: Path) -> None:
    line = save(data, images=pictures(100, 8, 8), labels=labels(100, 50))
    assert len(load(line.replace(")", ", limit=3)"), data).classes) == 50


def test_one_number_of_the_mean_a_channel(data: Path) -> None:
    line = save(data, images=pictures(20, 8, 8), labels=labels(20))
    with pytest.raises(
        ConfigurationError,
        match=r"npz\(mean=\(0.1, 0.2\)\): the inputs have 1 channels; write a number",
    ):
        load(line.replace(")", ", mean=(0.1, 0.2))"), data)


def test_grey_is_the_average_rounded_to_the_nearest() -> None:
    image = np.array(
        [[[[0]], [[0]], [[1]]], [[[0]], [[1]], [[1]]], [[[255]], [[255]], [[255]]]], np.uint8
    )
    assert arrange(image, PictureForm(channels=1)).ravel().tolist() == [0, 1, 255]


def test_a_file_and_an_array_give_the_same_bytes() -> None:
    images = pictures(3, 20, 30, 3)
    for form in (PictureForm(), PictureForm(size=8), PictureForm(size=40, channels=1)):
        encoded = [(str(number), png(image)) for number, image in enumerate(images)]
        files, _ = decode(encoded, 3, form)
        assert np.array_equal(files, arrange(images.transpose(0, 3, 1, 2), form))


def test_shrinking_averages_instead_of_skipping() -> None:
    """A checkerboard shrunk to a quarter is grey; without antialiasing it would be black or
    white."""
    board = np.indices((32, 32)).sum(axis=0) % 2 * 255
    small = arrange(board.astype(np.uint8)[None, None], PictureForm(size=8))
    assert abs(int(small.min()) - 127) < 20
    assert abs(int(small.max()) - 127) < 20


@pytest.mark.parametrize("kind", ["link", "fifo", "missing"])
def test_only_plain_files_inside_the_folder_are_read(tmp_path: Path, kind: str) -> None:
    """A fifo would hang for ever, and a link could name any file of the host."""
    for name in ("bag", "shoe"):
        write_files(tmp_path / "set", {f"{name}/{n}.png": png(GREY) for n in range(3)})
    (tmp_path / "secret.png").write_bytes(png(GREY))
    odd = tmp_path / "set" / "bag" / "odd.png"
    if kind == "fifo":
        os.mkfifo(odd)
    else:
        odd.symlink_to(tmp_path / "secret.png" if kind == "link" else tmp_path / "set" / "nowhere")
    words = "leads out of" if kind == "link" else "is not an ordinary file"
    with pytest.raises(DataError, match=words):
        load(f"imagefolder(path='{tmp_path / 'set'}')")


def test_a_picture_that_cannot_be_read_costs_only_itself_with_skip(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = folder_files("cat", "dog")
    write_files(data / "whole", files)
    write_files(data / "pets", {**files, "cat/00.png": b"text", "dog/zz.png": b""})
    whole = load("imagefolder(path='whole', test_share=0)", data)
    left = load("imagefolder(path='pets', test_share=0, skip=True)", data)
    assert (left.skipped, whole.skipped) == (2, 0)
    assert left.fingerprint == whole.fingerprint
    assert [line.getMessage().count("00.png") for line in caplog.records] == [1, 0]
    assert load("imagefolder(path='pets', test_share=0, skip=True)", data).skipped == 2


def test_nothing_left_is_refused(data: Path) -> None:
    write_files(data / "pets", {"cat/0.png": b"text", "dog/0.png": b"text"})
    with pytest.raises(DataError, match="holds no training sample"):
        load("imagefolder(path='pets', skip=True)", data)


def test_pictures_are_read_by_decoders_of_pixels_only(tmp_path: Path) -> None:
    """A PostScript program that is called a PNG would be run by Ghostscript."""
    write_files(tmp_path, {"bag/0.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n"})
    write_files(tmp_path, {"shoe/0.png": png(GREY)})
    with pytest.raises(DataError, match="is not a readable picture"):
        load(f"imagefolder(path='{tmp_path}')")


@pytest.mark.parametrize(("limit", "words"), [("MOST_PIXELS", "pixels"), ("MOST_BYTES", "GiB")])
def test_pictures_that_would_fill_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: str
) -> None:
    monkeypatch.setattr(f"fedmirage.common.data.files.decoding.{limit}", 10)
    for name in ("bag", "shoe"):
        write_files(tmp_path, {f"{name}/{n}.png": png(GREY) for n in range(3)})
    with pytest.raises(DataError, match=f"{words}.*smaller"):
        load(f"imagefolder(path='{tmp_path}')")


def test_a_mistyped_number_of_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="100000 classes at the most"):
        load(f"imagefolder(path='{tmp_path}', classes=1000000000)")
