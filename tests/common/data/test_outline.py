"""What a server can know of data that it does not read."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.loading import load
from fedmirage.common.data.outline import outline
from fedmirage.common.run import form_of
from fedmirage.common.settings.language import resolve_line, resolve_one
from fedmirage.common.settings.without_data import find_open
from tests.support.files import labels, png, write_files

EMBEDDED = ["digits", "digits(size=20, channels=3, mean=0.2)", "digits-multi(train=60, test=20)"]
EMBEDDED += ["digits-domains(limit=100)", "digits(mean=0.3), digits(mean=0.4)"]


@pytest.mark.parametrize("line", EMBEDDED)
def test_it_is_what_reading_gives(line: str) -> None:
    read, told = load(line), outline(tuple(resolve_line(line, DATASETS, "dataset")), "auto")
    assert form_of(told) == form_of(read)
    for name in ("name", "classes", "mean", "std", "named_by", "task", "domains"):
        assert getattr(told, name) == getattr(read, name), name
    assert told.pictures == read.pictures
    assert len(told.train) == len(told.test) == 0


def test_own_folders_and_tensors(tmp_path: Path) -> None:
    shape = (8, 8)
    write_files(
        tmp_path / "p",
        {f"{name}/{at}.png": png(np.zeros(shape, np.uint8)) for name in "ab" for at in range(3)},
    )
    np.savez(tmp_path / "t.npz", images=np.zeros((6, 3, 64), np.float32), labels=labels(6, 2))
    for line in (
        f"imagefolder(path='{tmp_path / 'p'}', classes=('a', 'b'), size=8, channels=1)",
        f"npz(path='{tmp_path / 't.npz'}', classes=('a', 'b'), inputs='tensors', shape=(3, 64))",
    ):
        read, told = load(line), outline(tuple(resolve_line(line, DATASETS, "dataset")), "auto")
        assert form_of(told) == form_of(read)
        assert (told.classes, told.mean, told.std) == (read.classes, read.mean, read.std)
        assert told.named_by == read.named_by == "own"


def test_tensors_of_another_shape_than_the_line_says_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", images=np.zeros((6, 3, 64), np.float32), labels=labels(6, 2))
    with pytest.raises(Exception, match=r"3x64.*3x32"):
        load(f"npz(path='{tmp_path / 't.npz'}', inputs='tensors', shape=(3, 32))")


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("imagefolder(path='x', size=8, channels=1)", ["classes=("]),
        ("imagefolder(path='x', classes=('a', 'b'), size=8)", ["size= and channels="]),
        ("npz(path='x', classes=2)", ["classes=(", "size= and channels="]),
        ("npz(path='x', classes=('a', 'b'), inputs='tensors')", ["shape=("]),
        ("embeddings(of='digits', encoder='a:b')", ["width="]),
        ("wine", ["only reading them gives"]),
        ("cifar100", []),
    ],
)
def test_what_a_line_leaves_open(line: str, missing: list[str]) -> None:
    found = find_open(resolve_one(line, DATASETS, "dataset"))
    assert len(found) == len(missing)
    for sentence, part in zip(found, missing, strict=True):
        assert sentence.startswith("server-data='none': ")
        assert part in sentence


def test_a_shape_is_for_inputs_that_are_no_pictures() -> None:
    with pytest.raises(Exception, match="pictures have size= and channels="):
        resolve_one("npz(path='x', shape=(1, 8, 8))", DATASETS, "dataset")


def test_the_clients_of_a_common_set_divide_its_test_split_as_its_training_split() -> None:
    from fedmirage.common.data.view import share_test

    data = load("digits(limit=400)")
    parts = [np.flatnonzero(data.train.labels < 3), np.flatnonzero(data.train.labels >= 2)]
    parts[1] = parts[1][data.train.labels[parts[1]] > 2]  # class 2 is the first client's alone
    shares = share_test(data, parts, seed=0)
    assert sorted(np.concatenate(shares)) == [*range(len(data.test))]
    assert set(data.test.labels[shares[0]]) == {0, 1, 2}
    assert set(data.test.labels[shares[1]]) == set(range(3, 10))
    halves = np.array_split(np.arange(len(data.train)), 2)
    for share in share_test(data, halves, seed=0):
        assert abs(len(share) - len(data.test) / 2) < 15


def test_a_table_by_its_schema(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,kind,y\n3,a,no\n4,b,yes\n5,a,no\n6,b,yes\n")
    (tmp_path / "schema.toml").write_text(
        'version = 1\nlabel = "y"\nclasses = ["no", "yes"]\n'
        '[[column]]\nname = "age"\ntype = "number"\n'
        '[[column]]\nname = "kind"\ntype = "category"\ncategories = ["a", "b"]\n'
    )
    line = f"table(path='{tmp_path / 't.csv'}', schema='{tmp_path / 'schema.toml'}')"
    params = tuple(resolve_line(line, DATASETS, "dataset"))
    read, told = load(line), outline(params, "auto")
    assert form_of(told) == form_of(read)
    for name in ("classes", "mean", "std", "named_by", "schema", "task"):
        assert getattr(told, name) == getattr(read, name), name
    assert [*map(tuple, told.categories)] == [*map(tuple, read.categories)] == [(1, 3)]
    assert [one for params_ in params for one in find_open(params_)] == []
