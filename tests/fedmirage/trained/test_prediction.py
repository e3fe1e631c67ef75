"""Predictions: inputs are read as in training, and what cannot be read is refused in a sentence."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from tests.support.inprocess import run_in_process
from tests.support.runs import lines
from tests.support.trained import QUICK, save_pictures

OLD = Path(__file__).parents[2] / "support" / "stored" / "261852d" / "one" / "model.safetensors"
ENCODER = "tests.support.encoders:shrink"


def test_pictures_in_files_get_the_answers_that_the_run_scored(
    digits: Path, tmp_path: Path
) -> None:
    """The pictures are saved as they are before they are resized: 8x8 is their genuine size."""
    test = load("digits(size=8)").test
    save_pictures(tmp_path, test.images, (f"{number:04d}" for number in range(len(test))))
    found = fedmirage.load_model(digits).predict(tmp_path)
    right = found["class"].to_numpy() == test.labels.astype(str)
    assert right.mean() == pytest.approx(lines(digits.parent)[-1]["accuracy"])
    assert 0.15 < right.mean() < 1
    assert list(found["input"]) == sorted(found["input"])


def test_pictures_are_resized_as_in_training(tmp_path: Path) -> None:
    """Larger ones come out as the decoder of training would have made them, colours included."""
    run_in_process(tmp_path / "run", **QUICK, dataset="digits(size=12)")
    model = fedmirage.load_model(tmp_path / "run" / "model.safetensors")
    raw, wanted = load("digits(size=8)").test, load("digits(size=12)").test
    paths = save_pictures(tmp_path, raw.images[:3], "abc")
    taken = model.facts.read(paths)
    assert torch.equal(taken, model.facts.normalise(torch.from_numpy(np.array(wanted.images[:3]))))
    assert torch.equal(taken[:1], model.facts.read(paths[0]))


def test_without_resizing_another_size_is_refused(tmp_path: Path) -> None:
    images = np.zeros((40, 6, 6), np.uint8)
    images[20:] = 200
    labels = np.repeat([0, 1], 20)
    np.savez(tmp_path / "own.npz", images=images, labels=labels)
    run_in_process(tmp_path / "run", **QUICK, dataset=f"npz(path='{tmp_path}/own.npz')")
    file = tmp_path / "run" / "model.safetensors"
    (path,) = save_pictures(tmp_path, [np.full((1, 9, 9), 200, np.uint8)], "x")
    with pytest.raises(FedmirageError, match=r"x\.png is 9x9 with 1 channel.*of 6x6.*--dataset"):
        fedmirage.load_model(file).predict(path)
    model = fedmirage.load_model(file, dataset="npz(path='own.npz', size=6)")
    assert model.predict(path)["class"].tolist() == ["1"]


def test_arrays_rows_and_python_agree(rows: Path, tmp_path: Path) -> None:
    test = load("wine").test
    np.savez(tmp_path / "rows.npz", x=test.images)
    np.save(tmp_path / "rows.npy", test.images)
    text = [",".join(f"c{column}" for column in range(13))]
    text += [",".join(map(repr, row.tolist())) for row in np.array(test.images)]
    (tmp_path / "rows.csv").write_text("\n".join(text))
    model, facts = fedmirage.load_model(rows)
    files = [tmp_path / f"rows.{ending}" for ending in ("npz", "npy", "csv")]
    one, other, third = (facts.read(file) for file in files)
    assert torch.equal(one, other)
    assert torch.equal(one, third)
    right = model(one).argmax(1).numpy() == test.labels
    assert right.mean() == pytest.approx(lines(rows.parent)[-1]["accuracy"])
    answers = fedmirage.load_model(rows).predict([files[2]], top=3)
    assert answers["input"][0] == f"{tmp_path}/rows.csv:1"
    chances = answers[["probability_1", "probability_2", "probability_3"]]
    assert np.allclose(chances.sum(axis=1), 1)
    assert (chances["probability_1"] >= chances["probability_2"]).all()
    assert set(answers["class_1"]) <= set(facts.classes)


def test_embeddings_come_as_vectors_or_from_the_encoder(tmp_path: Path) -> None:
    line = f"embeddings(of='digits(size=8)', encoder='{ENCODER}')"
    run_in_process(tmp_path / "run", **QUICK, dataset=line)
    model = fedmirage.load_model(tmp_path / "run" / "model.safetensors")
    raw, encoded = load("digits(size=8)").test, load(line).test
    np.save(tmp_path / "vectors.npy", encoded.images[:4])
    paths = save_pictures(tmp_path, raw.images[:4], "abcd")
    wanted = model.predict(tmp_path / "vectors.npy")["probability"]
    found = model.predict(paths, encoder=ENCODER)["probability"]
    assert np.allclose(found, wanted)
    with pytest.raises(FedmirageError, match=f"trust that function, add --encoder {ENCODER}"):
        model.predict(paths)
    other = model._replace(facts=model.facts.read_as(line))
    assert np.allclose(other.predict(paths, encoder=ENCODER)["probability"], wanted)


def test_files_of_earlier_versions_ask_for_the_dataset_line(tmp_path: Path) -> None:
    paths = save_pictures(tmp_path, load("digits(size=8)").test.images[:2], "ab")
    with pytest.raises(FedmirageError, match=r"earlier version and does not say.*--dataset"):
        fedmirage.load_model(OLD).predict(paths)
    assert len(fedmirage.load_model(OLD, dataset="digits(size=8)").predict(paths)) == 2


def test_the_command_prints_a_table_or_csv(digits: Path, tmp_path: Path) -> None:
    paths = save_pictures(tmp_path, load("digits(size=8)").test.images[:2], "ab")
    runner = CliRunner(env={"COLUMNS": "200"})
    typed = ["predict", str(digits), str(tmp_path), "--top", "2"]
    shown = runner.invoke(app, typed)
    assert "probability 2" in shown.output
    assert "a.png" in shown.output
    head, *found = csv.reader(runner.invoke(app, [*typed, "--csv"]).output.splitlines())
    assert head == ["input", "class_1", "probability_1", "class_2", "probability_2"]
    wanted = fedmirage.load_model(digits).predict(paths, top=2)
    assert [row[1] for row in found] == wanted["class_1"].tolist()
    assert [float(row[2]) for row in found] == pytest.approx(wanted["probability_1"].tolist(), 1e-5)


def bad_inputs(folder: Path) -> dict[str, str]:
    """Write files that no model on rows of 13 numbers takes, and say how each is refused."""
    (folder / "empty").mkdir()
    (folder / "text.txt").write_text("x")
    (folder / "letters.csv").write_text(",".join("abcdefghijklm") + "\n" + ",".join("x" * 13))
    (folder / "few.csv").write_text("a,b\n1,2\n")
    np.save(folder / "wide.npy", np.zeros((2, 14), np.float32))
    np.savez(folder / "several.npz", a=np.zeros(3), b=np.zeros(3))
    (folder / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    return {
        "empty": "has no pictures in it",
        "text.txt": "is not what this model takes: arrays in a .npz",
        "letters.csv": "column 'a' holds object; write numbers",
        "few.csv": "has 2 columns, and this model takes 13",
        "wide.npy": "holds inputs of the shape 14, and this model takes 13",
        "several.npz": "has the arrays a, b; call the inputs 'inputs'",
        "broken.npz": "damaged or is not a file of arrays",
        "nowhere.png": "there is no .*nowhere.png.*; check the path",
    }


def test_what_a_model_does_not_take_is_refused_in_a_sentence(rows: Path, tmp_path: Path) -> None:
    model = fedmirage.load_model(rows)
    for name, sentence in bad_inputs(tmp_path).items():
        with pytest.raises(FedmirageError, match=sentence):
            model.predict(tmp_path / name)
    with pytest.raises(FedmirageError, match="top=4: this model has 3 classes; write a number"):
        model.predict(tmp_path / "few.csv", top=4)


def test_a_picture_model_refuses_rows_and_damaged_pictures(digits: Path, tmp_path: Path) -> None:
    model = fedmirage.load_model(digits)
    (tmp_path / "few.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    for name, sentence in {
        "few.csv": "holds rows, and this model takes none",
        "bad.png": "is not a readable picture",
    }.items():
        with pytest.raises(FedmirageError, match=sentence):
            model.predict(tmp_path / name)


def test_a_model_file_that_is_none_or_of_another_version_is_refused(
    digits: Path, tmp_path: Path
) -> None:
    from fedmirage.common.wire.files import read_arrays, write_arrays

    half = tmp_path / "half.safetensors"
    half.write_bytes(digits.read_bytes()[:3000])
    arrays, facts = read_arrays(digits)
    later = tmp_path / "later.safetensors"
    write_arrays(later, arrays, {**facts, "version": "9.1.0", "shape": "1x8x8"})
    for path, sentence in (
        (half, "damaged, or not a file of arrays"),
        (later, r"written by fedmirage 9\.1\.0, and this is .*use the version"),
        (tmp_path, "damaged, or not a file of arrays"),
    ):
        with pytest.raises(FedmirageError, match=sentence):
            fedmirage.load_model(path)
