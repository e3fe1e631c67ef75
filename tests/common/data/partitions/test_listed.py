"""Positions that a file lists."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.client.build import deal_data
from fedmirage.client.node.redaction import UNUSABLE_DATA, tell
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.named import divide
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.settings.config import configure
from tests.support.files import labels, pictures


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a set that has a test split, and with one that has none."""
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    samples = {"train_images": pictures(20, 8, 8), "train_labels": labels(20)}
    np.savez(tmp_path / "one.npz", **samples)
    np.savez(tmp_path / "two.npz", test_images=pictures(4, 8, 8), test_labels=labels(4), **samples)
    return tmp_path


def read(folder: Path, content: Any, clients: int = 2, data: str = "two.npz") -> list[list[int]]:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "split.json").write_text(text)
    config = configure(
        {"dataset": f"npz(path={data!r})", "partition": "indices(path='split.json')"},
        {"clients": clients, "data_dir": str(folder)},
    )
    return [part.tolist() for part in divide(config, load(config.dataset, folder))]


@pytest.mark.parametrize(
    "content",
    [[[4, 0], [7]], {"zoe": [4, 0], "adam": [7]}, {"1": [7], "0": [4, 0]}],
    ids=["list", "names", "numbers"],
)
def test_clients_get_what_is_listed_in_ascending_order(folder: Path, content: Any) -> None:
    assert read(folder, content) == [[0, 4], [7]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([[0], [0]], "position 0 is listed 2 times"),
        ([[0], [20]], "client 1 lists position 20, but training samples are counted from 0 to 19"),
        ([[0], []], "client 1 holds no sample"),
        ([[0], [True]], "client 1 must be a list of whole numbers"),
        ([[0], [[1]]], "client 1 must be a list of whole numbers"),
        ([[0], [2**70]], "client 1 must be a list of whole numbers"),
        ([[0], None], "client 1 must be a list of whole numbers"),
        ([[0]], "lists 1 clients, not clients=2; set clients=1"),
        ("7", "no client is listed"),
        ({"data": "x", "seeds": {"0": [[0], [1]]}}, "was made for other data than npz"),
    ],
)
def test_a_file_that_is_wrong(folder: Path, content: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(folder, content)
    (problem,) = raised.value.problems
    assert words in problem
    assert problem.startswith("partition: indices(path='split.json')")


def test_all_problems_come_at_once(folder: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(folder, [[0, 99], [0], [], ["x"]])
    assert len(raised.value.problems) == 4


@pytest.mark.parametrize("content", ["", "[[0], [1]", "[" * 100_000, "\0"])
def test_a_damaged_file(folder: Path, content: str) -> None:
    with pytest.raises(DataError, match="is damaged or is not a JSON file"):
        read(folder, content)


def test_a_file_that_is_not_there(folder: Path) -> None:
    (folder / "split.json").unlink(missing_ok=True)
    config = configure({"partition": "indices(path='no.json')", "data_dir": str(folder)})
    with pytest.raises(DataError, match=r"partition: indices\(path='no.json'\): neither .* exists"):
        divide(config, load("npz(path='two.npz')", folder))


def test_a_test_set_that_is_held_out_shifts_positions(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no test split, and to hold one out shifts"):
        read(folder, [[0], [1]], data="one.npz")


def test_a_node_does_not_tell_what_its_file_holds(folder: Path) -> None:
    """The run names the path, so it could be any file of the node's owner."""
    (folder / "private.json").write_text("[[4711], [4711]]")
    lines = {"dataset": "npz(path='two.npz')", "partition": "indices(path='private.json')"}
    config = configure({**lines, "clients": 2, "data_dir": str(folder)})
    with pytest.raises(DataError, match="4711") as raised:
        deal_data(config)
    assert tell(raised.value) == UNUSABLE_DATA
