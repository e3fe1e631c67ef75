"""What `--check` finds in a node's own data: everything at once, each with its fix."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedmirage.common.data.loading import load
from fedmirage.node.findings import FAULT, OK, WARNING, Finding
from fedmirage.node.own_files import examine_data
from tests.support.files import labels, pictures, png, write_files, write_parquet

ONE, TWO = (png(one) for one in pictures(2, 12, 12))


def by_subject(path: Path, skip: bool = False) -> dict[str, Finding]:
    found = examine_data(path, skip)
    assert len({one.subject for one in found}) == len(found), found
    return {one.subject: one for one in found}


def test_a_sound_folder(tmp_path: Path) -> None:
    write_files(tmp_path, {"train/cat/0.png": ONE, "train/dog/0.png": TWO})
    write_files(tmp_path, {"test/cat/0.png": png(pictures(1, 12, 12, seed=1)[0])})
    found = by_subject(tmp_path)
    assert {one.state for one in found.values()} == {OK}
    assert "2 pictures for training (cat 1, dog 1); 1 pictures for testing" in found["data"].text
    assert found["size"].text.startswith("1x12x12 (3)")
    line = found["the run's line"].text.partition(", with the same")[0]
    assert line == "imagefolder(path=\"...\", classes=('cat', 'dog'))"
    assert len(load(line.replace("...", str(tmp_path))).train) == 2


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    larger = png(pictures(1, 14, 14, 3)[0])
    write_files(
        tmp_path, {"train/cat/0.png": ONE, "train/cat/bad.png": b"", "train/dog/1.png": TWO}
    )
    write_files(tmp_path, {"train/dog/bad.png": b"no", "test/cat/copy.png": ONE})
    write_files(tmp_path, {"train/cat/large.png": larger})
    found = by_subject(tmp_path)
    assert found["unreadable"].state == FAULT
    for part in ("2 of 6 pictures", "train/cat/bad.png", "train/dog/bad.png", "skip=true"):
        assert part in found["unreadable"].text
    assert (found["size"].state, found["duplicates"].state) == (WARNING, WARNING)
    assert "test/cat/copy.png" in found["duplicates"].text
    assert "size=12, channels=3" in found["the run's line"].text
    assert by_subject(tmp_path, skip=True)["unreadable"].state == WARNING


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"readme.txt": b"x"}, "has no folder with pictures in it; put the pictures of each class"),
        ({"0.png": ONE}, "has no folder with pictures in it"),
        ({"cat/0.png": b"no"}, "none of the 1 pictures in"),
    ],
)
def test_a_folder_without_classes(tmp_path: Path, files: dict[str, bytes], told: str) -> None:
    write_files(tmp_path, files)
    faults = [one.text for one in examine_data(tmp_path, skip=True) if one.state == FAULT]
    assert len(faults) == 1
    assert told in faults[0]


def test_empty_and_single_classes(tmp_path: Path) -> None:
    write_files(tmp_path, {"cat/0.png": ONE})
    (tmp_path / "dog").mkdir()
    texts = [one.text for one in examine_data(tmp_path, False) if one.state == WARNING]
    assert len(texts) == 2
    assert texts[0].startswith("dog: no training sample")
    assert "of one class, cat, so only a run whose line names all classes" in texts[1]


def test_arrays(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    whole = {"x_train": pictures(9, 8, 8), "y_train": labels(9, 3)}
    np.savez(file, **whole, x_test=whole["x_train"][:2], y_test=[0, 1])
    found = by_subject(file)
    assert "9 pictures for training (0 3, 1 3, 2 3)" in found["data"].text
    assert "test 0, test 1" in found["duplicates"].text
    np.savez(file, x_train=whole["x_train"], y_train=np.zeros(9, int))
    assert "of one class, 0" in by_subject(file)["classes"].text
    np.savez(file, x_train=np.ones((9, 2, 30)) * 7.5, y_train=labels(9, 3))
    assert 'npz(path="...", inputs="tensors", classes=3)' in by_subject(file)["the run's line"].text
    file.write_bytes(b"damaged")
    assert "is damaged or is not a .npz file" in by_subject(file)["data"].text


def test_parquet(tmp_path: Path) -> None:
    file = tmp_path / "own.parquet"
    mixed = [b"no", *(png(one) for one in pictures(5, 8, 8)), b"neither"]
    pq.write_table(pa.table({"image": mixed, "label": labels(7, 2)}), file)
    assert by_subject(file)["unreadable"].text.count("row ") == 2
    write_parquet(file, pictures(4, 8, 8), {"kind": labels(4, 2)}, image="photo")
    found = by_subject(file)["data"]
    assert (found.state, "columns photo, kind" in found.text) == (WARNING, True)


def test_texts(tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("text,label\ngood,1\nbad,0\n")
    found = by_subject(file)
    assert "2 rows with the columns text, label" in found["data"].text
    assert found["classes"].text == "0 1, 1 1"
    file.write_text("text,label\n")
    assert by_subject(file)["data"].state == FAULT


def test_a_table_with_its_schema(tmp_path: Path) -> None:
    file, schema = tmp_path / "own.csv", tmp_path / "schema.toml"
    file.write_text("age,ill\n40,yes\n50,no\n60,no\n")
    told = 'version = 1\nlabel = "ill"\nclasses = ["no", "yes"]\n'
    told += '[[column]]\nname = "age"\ntype = "number"\n'
    schema.write_text(told)
    found = {one.subject: one for one in examine_data(file, False, str(schema))}
    assert "3 rows for training (no 2, yes 1)" in found["data"].text
    assert found["the run's line"].text.startswith('table(path="...")')
    schema.write_text(told.replace("age", "weight"))
    (fault,) = examine_data(file, False, str(schema))
    assert (fault.state, "weight" in fault.text) == (FAULT, True)


def test_a_file_that_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "x.doc").write_text("x")
    assert "is no data: name a folder" in by_subject(tmp_path / "x.doc")["data"].text
