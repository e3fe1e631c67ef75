"""`fedmirage supernode --sent` shows what left a site."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from fedmirage.cli import app
from fedmirage.common.errors import FedmirageError
from fedmirage.node.sent import describe, show_sent
from tests.support.nodes import read_way

LINE = {
    "time": "2026-11-18T20:31:02.123+00:00",
    "partition": 1,
    "run": "0123456789abcdef",
    "run_id": "7",
    "round": 2,
    "message": "train",
    "methods": "fedavg",
    "secagg": "off",
    "dp": "local(noise=2)",
    "epsilon": 1.25,
    "sections": {"shared": [{"type": "float32", "shape": [10, 84], "bytes": 3488}]},
    "bytes": 3488,
    "metrics": ["steps"],
    "sha256": "ab" * 32,
    "said": None,
}


def shown(folder: Path) -> str:
    console = Console(file=io.StringIO(), record=True, width=250)
    show_sent(console, folder)
    return console.export_text()


def test_a_line_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "outgoing.jsonl").write_text(json.dumps(LINE) + "\n")
    text = shown(tmp_path)
    for part in ("2026-11-18 20:31:02", "0123456789abcdef", "train", "shared 10x84", "3,488"):
        assert part in text
    assert "secagg off, dp local(noise=2), epsilon 1.25" in text
    assert "abababababab " in text


def test_many_arrays_and_sentences_are_short() -> None:
    shapes = [{"shape": [number]} for number in range(1, 8)]
    assert describe({"sections": {"a": shapes}}) == "a 1, 2, 3, 4 and 3 more"
    assert describe({"said": "no"}) == "a refusal: no"


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "outgoing.jsonl").write_text('{"time": "2026\n' + json.dumps(LINE) + "\n")
    with pytest.raises(FedmirageError, match="line 1 cannot be read"):
        shown(tmp_path)


def test_a_node_that_has_sent_nothing(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="name its folder with --memory"):
        app(["supernode", "--sent", "--memory", str(tmp_path)], standalone_mode=False)


def test_one_thing_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="--forget and --sent exclude each other"):
        app(["supernode", "--sent", "--forget", "7"], standalone_mode=False)


def test_the_memory_folder_may_be_an_option(tmp_path: Path) -> None:
    way = read_way("--node-config", "partition-id=0", "--memory", str(tmp_path))
    assert way.node_config == f'partition-id=0 memory="{tmp_path}"'
    with pytest.raises(FedmirageError, match="has a memory too; write one"):
        read_way("--node-config", 'memory="/x"', "--memory", str(tmp_path))
