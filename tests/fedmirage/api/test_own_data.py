"""Data and splits that a program holds: the same bits as from a file, and every bad input."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas
import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Value
from flwr_datasets.partitioner import IidPartitioner
from PIL import Image as Pictures
from rich.console import Console
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as Items

import fedmirage
from fedmirage.api import own_data
from fedmirage.api.own_data import remove_unread, take_in
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.named import divide
from fedmirage.common.errors import DataError
from fedmirage.common.settings.config import configure
from tests.support.runs import assert_same_bits, without_times

IMAGES = np.random.default_rng(0).integers(0, 256, (90, 16, 16, 3), np.uint8)
LABELS = np.arange(90) % 3
TEST = (IMAGES[60:], LABELS[60:])
TRAIN = (IMAGES[:60], LABELS[:60])
SHORT: dict[str, Any] = {"clients": 3, "rounds": 2, "local_steps": 2, "batch_size": 8}


SIGNALS = np.random.default_rng(1).normal(size=(90, 3, 16))


def tensors(given: Any, **keys: Any) -> fedmirage.OwnData:
    """Data of a program that are no pictures."""
    return fedmirage.OwnData(given, inputs="tensors", **keys)


def prepare(**settings: Any) -> dict[str, Any]:
    """What becomes of settings, where nothing is wrong with them."""
    made, problems = take_in(settings, [], Console(quiet=True))
    assert problems == []
    return made


def refuse(**settings: Any) -> list[str]:
    """Every problem that `run` raises."""
    with pytest.raises(fedmirage.ConfigurationError) as raised:
        fedmirage.run(quiet=True, **settings)
    return raised.value.problems


def one(**settings: Any) -> str:
    """The only problem that `run` raises."""
    (problem,) = refuse(**settings)
    return problem


def read(given: Any, **keys: Any) -> Any:
    """The data set that a run would load."""
    own = given if isinstance(given, fedmirage.OwnData) else fedmirage.OwnData(given, **keys)
    return load(prepare(dataset=own)["dataset"])


@pytest.mark.usefixtures("here")
def test_a_run_has_the_bits_of_the_same_data_in_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", images=IMAGES, labels=LABELS)
    fedmirage.run(dataset=(IMAGES, LABELS), partition="iid", out="given", **SHORT)
    fedmirage.run(dataset="npz(path='file.npz')", partition="iid", out="file", **SHORT)
    assert_same_bits(tmp_path / "given", tmp_path / "file")
    assert without_times(tmp_path / "given") == without_times(tmp_path / "file")


@pytest.mark.usefixtures("here")
def test_a_run_goes_on_without_the_data_or_with_them() -> None:
    settings = {**SHORT, "rounds": 1, "out": "run"}
    fedmirage.run(dataset=[TRAIN, TEST], **{**settings, "clients": 2})
    assert fedmirage.run(resume="run", rounds=2).summary["rounds"] == 2
    again = fedmirage.run(resume="run", rounds=3, dataset=[TRAIN, TEST])
    assert again.summary["rounds"] == 3
    told = one(resume="run", rounds=4, dataset=[TEST, TRAIN])
    assert "continues a run with its own settings, but you gave dataset=" in told


def test_what_is_kept_is_private_and_written_once(data: Path) -> None:
    line = prepare(dataset=(IMAGES, LABELS))["dataset"]
    (file,) = (data / "given").iterdir()
    assert line == f"npz(path='given/{file.name}')"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    before = file.stat().st_mtime_ns
    assert prepare(dataset=(torch.tensor(IMAGES), LABELS.tolist()))["dataset"] == line
    assert file.stat().st_mtime_ns == before
    assert prepare(dataset=(IMAGES[::-1], LABELS))["dataset"] != line


def test_data_that_are_gone_can_be_given_again(data: Path) -> None:
    line = prepare(dataset=TRAIN)["dataset"]
    (file,) = (data / "given").iterdir()
    file.unlink()
    with pytest.raises(DataError, match=r"no longer in .* give it again"):
        load(line)
    assert prepare(dataset=TRAIN)["dataset"] == line
    load(line)


def test_what_no_run_has_read_for_a_month_is_removed_when_room_is_short(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data that are read by now stay, also where the file system keeps no time of access."""
    lines = [prepare(dataset=(IMAGES + number, LABELS))["dataset"] for number in range(3)]
    folder = data / "given"
    for file in folder.iterdir():
        os.utime(file, (0, 0))
    assert remove_unread(folder) == ""
    size = sum(file.stat().st_size for file in folder.iterdir())
    monkeypatch.setattr(own_data, "LIMIT", size - 1)
    load(lines[1])
    assert remove_unread(folder) == (
        f"removed what no run had read for a month from {folder}: 1 of 3 files"
    )
    monkeypatch.setattr(own_data, "LIMIT", 1)
    told = remove_unread(folder)
    assert "1 of 2 files; " in told
    assert f"{folder} holds 0.0 GiB; delete there" in told
    assert [f"npz(path='given/{file.name}')" for file in folder.iterdir()] == [lines[1]]


def test_the_data_folder_of_the_settings_is_used(tmp_path: Path) -> None:
    prepare(dataset=(IMAGES, LABELS), data_dir=str(tmp_path / "other"))
    assert len(list((tmp_path / "other" / "given").iterdir())) == 1


def test_a_data_folder_that_cannot_be_written(data: Path) -> None:
    data.write_text("a file")
    assert "cannot be kept in" in one(dataset=(IMAGES, LABELS))


class PictureItems(Items[Any]):
    """Items as torchvision's sets have them: PIL pictures and whole numbers."""

    classes = ("cat", "cow", "dog")

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, number: int) -> Any:
        return Pictures.fromarray(IMAGES[number]), int(LABELS[number])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from zip(torch.tensor(IMAGES), LABELS, strict=True)


def hugging_face() -> Dataset:
    features = Features(
        {"img": Image(), "kind": ClassLabel(names=["cat", "cow", "dog"]), "n": Value("int64")}
    )
    rows = {"img": [Pictures.fromarray(image) for image in IMAGES], "kind": LABELS, "n": LABELS}
    return Dataset.from_dict(rows, features=features)


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "floats": ((IMAGES / 255, LABELS), {}),
    "channels first": ((torch.tensor(IMAGES).permute(0, 3, 1, 2) / 255, torch.tensor(LABELS)), {}),
    "items": (PictureItems(), {}),
    "tensors": (TensorDataset(torch.tensor(IMAGES), torch.tensor(LABELS)), {}),
    "stream": (Stream(), {}),
    "dicts": ([], {}),
    "hugging face": (hugging_face(), {"label": "kind"}),
    "texts": ((IMAGES, np.array(["cat", "cow", "dog"])[LABELS]), {}),
}
KINDS["dicts"] = (Dataset.from_dict({"img": IMAGES, "labels": LABELS}), {})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_gives_the_same_samples(kind: str) -> None:
    given, keys = KINDS[kind]
    found, plain = read(given, **keys), read((IMAGES, LABELS))
    assert np.array_equal(found.train.images, plain.train.images)
    assert np.array_equal(found.test.labels, plain.test.labels)
    assert found.fingerprint == plain.fingerprint
    named = kind in ("items", "hugging face", "texts")
    assert found.classes == (("cat", "cow", "dog") if named else ("0", "1", "2"))
    assert found.divided


class SignalItems(Items[Any]):
    def __len__(self) -> int:
        return len(SIGNALS)

    def __getitem__(self, number: int) -> Any:
        return SIGNALS[number].tolist(), int(LABELS[number])


@pytest.mark.parametrize(
    "given",
    [
        (SIGNALS, LABELS),
        (torch.tensor(SIGNALS), torch.tensor(LABELS)),
        SignalItems(),
        Dataset.from_dict({"image": SIGNALS.tolist(), "label": LABELS}),
        [(SIGNALS[:40], LABELS[:40]), (SIGNALS[40:], LABELS[40:])],
    ],
    ids=["arrays", "tensors", "items", "hugging-face", "clients"],
)
def test_inputs_of_any_shape(given: Any) -> None:
    found = read(tensors(given, test_share=0))
    assert (found.shape, found.pictures) == ((3, 16), False)
    assert np.array_equal(found.train.images, SIGNALS.astype(np.float32))


@pytest.mark.parametrize("shape", [(48,), (2, 2, 3, 4)])
def test_a_run_on_inputs_of_any_shape(shape: tuple[int, ...]) -> None:
    given = tensors((SIGNALS.reshape(90, *shape), LABELS))
    run = fedmirage.run(dataset=given, model="mlp", quiet=True, **SHORT)
    assert run.settings["dataset"].endswith("inputs='tensors')")


def test_narrow_images_keep_their_sides() -> None:
    images = np.random.default_rng(1).integers(0, 256, (30, 1, 5, 3), np.uint8)[:, :, :, :3]
    found = read((images.transpose(0, 3, 1, 2), LABELS[:30]), test_share=0.0)
    assert found.shape == (3, 1, 5)


@pytest.mark.parametrize(
    "given",
    [
        {"train": TRAIN, "test": TEST},
        fedmirage.OwnData(TRAIN, test=TEST),
        fedmirage.OwnData(TRAIN, TensorDataset(torch.tensor(TEST[0]), torch.tensor(TEST[1]))),
        DatasetDict(
            train=Dataset.from_dict({"image": TRAIN[0], "label": TRAIN[1]}),
            test=Dataset.from_dict({"image": TEST[0], "label": TEST[1]}),
        ),
    ],
)
def test_both_splits(given: Any) -> None:
    found = read(given)
    assert (len(found.train), len(found.test), found.divided) == (60, 30, False)
    assert np.array_equal(found.test.images, IMAGES[60:].transpose(0, 3, 1, 2))


def test_keys_of_own_data_reach_the_line() -> None:
    found = read(
        TRAIN, test=TEST, size=8, channels=1, mean=0.1, std=0.2, classes=("a", "b", "c", "d")
    )
    assert (found.shape, found.mean, found.std) == ((1, 8, 8), (0.1,), (0.2,))
    assert found.classes == ("a", "b", "c", "d")


def test_several_labels_per_image() -> None:
    found = read((IMAGES, np.eye(3, dtype=np.int64)[LABELS]))
    assert (found.task, len(found.classes)) == ("multi-label", 3)


def parts(settings: dict[str, Any], seed: int = 0) -> list[list[int]]:
    """Who holds what, as labels of a run's samples by position in all of the data."""
    config = configure(settings, {"seed": seed})
    found = load(config.dataset)
    return [held.tolist() for held in divide(config, found)]


def partitioner() -> IidPartitioner:
    found = IidPartitioner(num_partitions=3)
    found.dataset = Dataset.from_dict({"image": TRAIN[0], "label": TRAIN[1]})
    return found


HELD = [(IMAGES[:10], LABELS[:10]), (IMAGES[10:40], LABELS[10:40]), (IMAGES[40:60], LABELS[40:60])]


@pytest.mark.parametrize(
    "given",
    [HELD, dict(zip("zxy", HELD, strict=True)), {2: HELD[2], 1: HELD[1], 0: HELD[0]}],
    ids=["list", "names", "numbers"],
)
def test_one_part_per_client_in_the_given_order(given: Any) -> None:
    settings = prepare(dataset=fedmirage.OwnData(given, test=TEST))
    assert settings["partition"] == "natural(by='client')"
    assert settings["clients"] == 3
    assert parts(settings) == [list(range(10)), list(range(10, 40)), list(range(40, 60))]


def test_a_partitioner_of_flower() -> None:
    settings = prepare(dataset=fedmirage.OwnData(partitioner(), test=TEST))
    assert [len(part) for part in parts(settings)] == [20, 20, 20]


def test_clients_with_a_test_split_each() -> None:
    both = [{"train": HELD[0], "test": HELD[1]}, {"train": HELD[2], "test": TEST}]
    found = read(fedmirage.OwnData(both))
    assert (len(found.train), len(found.test)) == (30, 60)
    assert found.test.columns["client"].tolist() == [0] * 30 + [1] * 30


def test_a_partition_of_ones_own_wins_over_natural_clients() -> None:
    assert prepare(dataset=HELD, partition="iid")["partition"] == "iid"
    assert "clients" not in prepare(dataset=HELD, partition="iid")


def thirds(labels: Any, clients: int, generator: np.random.Generator) -> list[Any]:
    return np.array_split(generator.permutation(len(labels)), clients)


def test_a_function_divides_what_is_left_after_the_test_set_by_the_seed() -> None:
    settings = prepare(dataset=(IMAGES, LABELS), partition=thirds, clients=3, seed=4)
    held = parts(settings, seed=4)
    assert sorted(np.concatenate(held).tolist()) == list(range(72))
    with pytest.raises(fedmirage.ConfigurationError, match="was made for seed 4, not seed=5"):
        parts(settings, seed=5)
    with pytest.raises(fedmirage.ConfigurationError, match="was made for other data"):
        parts(settings | {"dataset": prepare(dataset=TRAIN)["dataset"]}, seed=4)


def test_a_function_is_called_once_per_seed_of_a_comparison() -> None:
    given = {"dataset": "digits(limit=300)", "partition": thirds, "clients": 3}
    settings, problems = take_in(given, [], Console(quiet=True), [0, 1])
    assert problems == []
    assert parts(settings, 0) != parts(settings, 1)


@pytest.mark.parametrize(
    "given",
    [
        [[3, 1], range(10, 20), np.arange(20, 40), torch.arange(40, 45)],
        {"a": [3, 1], "b": list(range(10, 20)), "c": np.arange(20, 40), "d": torch.arange(40, 45)},
        {2: np.arange(20, 40), 0: [1, 3], 3: torch.arange(40, 45), 1: range(10, 20)},
    ],
)
def test_positions_as_lists_and_dicts(given: Any, data: Path) -> None:
    settings = prepare(dataset=fedmirage.OwnData(TRAIN, test=TEST), partition=given)
    assert settings["clients"] == 4
    assert parts(settings) == [
        [1, 3],
        list(range(10, 20)),
        list(range(20, 40)),
        list(range(40, 45)),
    ]
    (file,) = (data / "given").glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


class Broken(PictureItems):
    def __getitem__(self, number: int) -> Any:
        if number == 7:
            raise OSError("the disk is gone")
        return super().__getitem__(number)


class Uneven(PictureItems):
    def __getitem__(self, number: int) -> Any:
        image, label = super().__getitem__(number)
        return (image.resize((8, 9)) if number == 5 else image), label


class Renamed(PictureItems):
    classes = ("cow", "cat", "dog")


NAN = np.full((90, 16, 16), np.nan)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((IMAGES, LABELS[:80]), "the training data: 90 images but 80 labels"),
        ((IMAGES, LABELS / 2), "labels are float64, not whole numbers"),
        ((IMAGES, np.where(LABELS == 1, np.nan, LABELS)), "(some are missing), not whole numbers"),
        ((IMAGES, LABELS - 1), "30 labels are negative, such as -1"),
        ((IMAGES, LABELS + 1), "no training sample has class 0, though labels go up to 3"),
        ((IMAGES, LABELS * 1000), "the labels go up to 2000; number the classes from 0"),
        ((IMAGES, LABELS * 0), "all labels are 0"),
        ((IMAGES, ["cat"] * 90), "all labels are 'cat'; there must be two classes"),
        ((IMAGES, LABELS == 1), "labels are bool, not whole numbers"),
        ((IMAGES, np.eye(3)[LABELS]), "labels are float64, not whole numbers"),
        ((IMAGES, 2 * np.eye(3, dtype=int)[LABELS]), "must be 0 or 1"),
        ((IMAGES, np.array([None] * 90)), "labels are object, not whole numbers"),
        ((NAN, LABELS), "holds NaN or infinite values"),
        ((IMAGES.astype(np.int32), LABELS), "holds int32; save bytes"),
        ((IMAGES - 0.5, LABELS), "holds floats outside [0, 1]; scale them"),
        ((IMAGES[..., :2], LABELS), "1 or 3 channels"),
        ((IMAGES[:, 0, 0], LABELS), "write inputs='tensors' if they are no pictures"),
        (tensors((NAN, LABELS)), "90 of the 90 inputs hold NaN, infinite or too large values"),
        (tensors((IMAGES.astype(str), LABELS)), "holds <U3; save numbers"),
        (tensors((np.zeros(90), LABELS)), "it must be (samples, ...)"),
        (tensors((SIGNALS, LABELS * 0)), "all labels are 0"),
        (tensors((SIGNALS[:1], LABELS[:1])), "all labels are 0"),
        (tensors((SIGNALS, LABELS), test=(SIGNALS[:, :, 1:], LABELS)), "are 3x15, those of"),
        (tensors((SIGNALS, LABELS), size=8), "size= is for pictures"),
        ((IMAGES[:0], LABELS[:0]), "there is no sample"),
        ((IMAGES,), "a tuple is a pair (images, labels), but this has 1 parts"),
        ((TRAIN, TEST), "test data go into OwnData(train, test=...)"),
        (IMAGES, "is an ndarray; give a pair (images, labels)"),
        (7, "is an int; give a pair"),
        (DataLoader(PictureItems()), "a DataLoader has batches; give its .dataset"),
        (Broken(), "item 7 raised OSError: the disk is gone (test_own_data.py, line"),
        (Uneven(), "item 5 is 9x8 with 3 channels, the items before it are 16x16"),
        (TensorDataset(torch.tensor(IMAGES)), "it must be a pair (image, label)"),
        (Dataset.from_dict({"x": [1], "label": [0]}), "no column 'image' or 'img', only x, label"),
        (Dataset.from_dict({"image": [[[1]]], "label": [None]}), "item 0 has no label"),
        (IidPartitioner(num_partitions=2), "assign partitioner.dataset first"),
        ([HELD[0], (IMAGES[:3, :8, :8], LABELS[:3])], "client 1 are 8x8 with 3 channels"),
        ([HELD[0], (IMAGES[:0], LABELS[:0])], "client 1: there is no sample"),
        ([HELD[0], (IMAGES[:3], np.eye(3, dtype=int))], "are of another kind than"),
        ([PictureItems(), Renamed()], "client 1 have other names, or another order, than"),
        ([], "there is no client in it"),
        ({"train": TRAIN, "valid": TEST}, "OwnData(data['train'], test=data['valid'])"),
        ([{"train": HELD[0], "test": TEST}, HELD[1]], "give one for every client"),
        (fedmirage.OwnData({"train": TRAIN, "test": TEST}, test=TEST), "two test splits"),
        (fedmirage.OwnData(TRAIN, sise=8), "dataset: npz has no key 'sise'"),
        (fedmirage.OwnData(TRAIN, path="x"), "OwnData has no key 'path'"),
    ],
)  # fmt: skip
def test_bad_data_are_refused_with_a_sentence_and_nothing_is_written(
    given: Any, words: str, data: Path
) -> None:
    problem = one(dataset=given)
    assert words in problem
    assert problem.startswith("dataset: ")
    assert not data.exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[0, 1], [1, 2]], "position 1 is listed 2 times, by each of the clients 0, 1"),
        ([[0, 0], [1]], "position 0 is listed 2 times, by client 0"),
        ([[0], [60]], "client 1 lists position 60, but training samples are counted from 0 to 59"),
        ([[-1], [3]], "client 0 lists position -1"),
        ([[0], []], "client 1 holds no sample"),
        ([[0], [0.5]], "client 1 must be a list of whole numbers"),
        ([[0], "12"], "client 1 must be a list of whole numbers"),
        ([0, 1], "each of the clients 0, 1 must be a list"),
        ({}, "no client is listed"),
        (7, "int is no split"),
        (lambda labels, clients, generator: [[0]], "the function returns 1 lists for clients=5"),
        (lambda labels, clients: [[0]], "the function raised TypeError"),
        (
            lambda labels, clients, generator: 1 / 0,
            "raised ZeroDivisionError: division by zero (test",
        ),
        (lambda labels, clients, generator: None, "what the function returns: no client is listed"),
    ],
)
def test_bad_splits_are_refused_with_a_sentence(given: Any, words: str, data: Path) -> None:
    problem = one(dataset=fedmirage.OwnData(TRAIN, test=TEST), partition=given)
    assert words in problem
    assert problem.startswith("partition: ")
    assert not list(data.rglob("*.json"))


def test_positions_and_a_held_out_test_set_do_not_go_together() -> None:
    told = one(dataset=TRAIN, partition=[[0], [1]])
    assert "has no test split, and to hold one out shifts them" in told


def test_everything_that_is_wrong_comes_at_once(data: Path) -> None:
    wrong: dict[str, Any] = {
        "dataset": [(IMAGES[:9], LABELS[:8] - 1), (NAN, LABELS)],
        "partition": [[0, 1], [1]],
        "lr": "x",
    }
    words = (
        "9 images but 8",
        "3 labels are negative",
        "holds NaN",
        "position 1 is listed",
        "lr='x'",
    )
    with pytest.raises(fedmirage.ConfigurationError) as compared:
        fedmirage.compare("fedcgo", quiet=True, **wrong)
    for problems in (refuse(methods="fedcgo", **wrong), compared.value.problems):
        for word in (*words, "fedcgo"):
            assert any(word in problem for problem in problems), word
    assert not data.exists()


def test_a_dataset_is_not_read_to_its_end_if_a_setting_is_wrong() -> None:
    assert one(dataset=Broken(), rounds=0).startswith("rounds=0")
    assert one(dataset=TensorDataset(*map(torch.tensor, TEST)), rounds=0).startswith("rounds=0")


@pytest.mark.parametrize("given", [PictureItems(), Stream()])
def test_a_notebook_shows_how_far_reading_is(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Mock()
    monkeypatch.setattr("IPython.display.display", shown)
    take_in({"dataset": given}, [], Console(force_jupyter=True))
    last = shown.return_value.update.call_args.args[0]["text/plain"]
    assert last.startswith(f"90/{90 * hasattr(given, '__len__')} items · the training data")


def test_a_comparison_has_a_folder_for_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the same call continues it, and other data are another comparison."""
    plans: list[Any] = []

    def stop(plan: Any, *_: Any) -> None:
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr("fedmirage.comparison.command.run_comparison", stop)
    for given in (HELD, list(HELD), HELD[:2]):
        with pytest.raises(KeyboardInterrupt):
            fedmirage.compare("fedprox", seeds=[0, 1], dataset=given, partition=thirds, quiet=True)
    same, again, other = plans
    assert same.folder == again.folder != other.folder
    assert same.base.dataset == again.base.dataset
    assert len({tuple(parts(same.base.flat(), seed)[0]) for seed in same.seeds}) == 2


def test_a_frame_is_told_how_it_becomes_a_table() -> None:
    (told,) = refuse(dataset=pandas.DataFrame({"age": [1, 2], "ill": [0, 1]}))
    assert "is a DataFrame, whose columns need a schema" in told
    assert "fedmirage schema table.parquet --label COLUMN" in told
