"""Every message of a deployed node has a line in outgoing.jsonl before it is sent."""

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.app import make_app
from fedmirage.client.node import outgoing
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import decode
from fedmirage.server.run import run
from tests.support.deployed import SMALL
from tests.support.inprocess import InProcessGrid, run_in_process

PROTECTED = {"dp": "central(noise=2, clip=1)", "methods": "fedavg"}


def play(out: Path, node: dict[str, Any] | None = None, **settings: Any) -> list[Message]:
    """Run with nodes that share a memory folder; return all that the server received."""
    received: list[Message] = []
    config = configure({**SMALL, "out": str(out), "node_timeout": 0.1, **settings})
    grid = InProcessGrid(
        make_app(), config.clients, lambda _, reply: received.append(deepcopy(reply)) or reply
    )
    for context in grid.contexts.values():
        context.run_config = dict(config.flat())
        context.node_config.update({"memory": str(out / "memory"), **(node or {})})
    run(grid, config)
    return received


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "memory" / "outgoing.jsonl").open()]


def test_the_lines_are_those_of_the_messages(tmp_path: Path) -> None:
    received = play(tmp_path, methods="scaffold, fedprox", validation=0.2)
    lines = read(tmp_path)
    assert len(lines) == len(received)
    assert {line["message"] for line in lines} == {"properties", "train", "evaluate"}
    for line, message in zip(lines, received, strict=True):
        tensors: list[bytes] = []
        if line["message"] == "train":
            tensors = compat.recorddict_to_fitres(message.content, True).parameters.tensors
            assert set(line["sections"]) == {"shared", "control-delta"}
            assert line["methods"] == "scaffold, fedprox"
            assert (line["round"], line["secagg"], line["epsilon"]) in [
                (1, "off", None),
                (2, "off", None),
            ]
            shapes = [array["shape"] for array in line["sections"]["shared"]]
            assert shapes == [list(array.shape) for array in decode(tensors)[: len(shapes)]]
            assert {"float32"} == {array["type"] for array in line["sections"]["shared"]}
            assert len(line["run"]) == 16
        assert line["sha256"] == hashlib.sha256(b"".join(tensors)).hexdigest()
        assert line["bytes"] == sum(map(len, tensors))


def test_a_type_that_numpy_does_not_have_is_named(tmp_path: Path) -> None:
    play(tmp_path, methods="fedavg", wire="bfloat16", rounds=1)
    trained = [line for line in read(tmp_path) if line["message"] == "train"]
    assert trained
    for line in trained:
        assert {"bfloat16"} == {array["type"] for array in line["sections"]["shared"]}


def test_every_stage_of_secure_aggregation_has_a_line(tmp_path: Path) -> None:
    received = play(tmp_path, methods="fedavg", secagg="on", clients=3, rounds=1)
    lines = [line for line in read(tmp_path) if line["message"].startswith("secagg")]
    stages = ["advertise", "share", "mask", "open"]
    assert [line["message"] for line in lines[::3]] == [f"secagg {stage}" for stage in stages]
    assert [set(line["sections"]) for line in lines[::3]] == [
        {"keys", "signature"},
        {"sealed"},
        {"vector"},
        {"shares"},
    ]
    assert {(line["round"], line["secagg"]) for line in lines} == {(1, "on")}
    assert len({line["run"] for line in lines}) == 1
    vectors = [
        record["vector"]
        for message in received
        for record in message.content.config_records.values()
        if "vector" in record
    ]
    masked = [line for line in lines if line["message"] == "secagg mask"]
    for line, vector in zip(masked, vectors, strict=True):
        assert line["sha256"] == hashlib.sha256(vector).hexdigest()


def test_what_is_spent_is_told(tmp_path: Path) -> None:
    play(tmp_path, **PROTECTED)
    spent = [line["epsilon"] for line in read(tmp_path) if line["message"] == "train"]
    assert len(spent) == 4
    assert 0 < spent[0] < spent[2]


def test_a_sentence_that_leaves_is_kept(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="this node requires secagg"):
        play(tmp_path, {"require": "secagg"})
    assert "this node requires secagg" in read(tmp_path)[0]["said"]


def test_no_value_is_written(tmp_path: Path) -> None:
    play(tmp_path, methods="fedavg", rounds=1)
    numbers = {type(value) for line in read(tmp_path) for value in line["metrics"]}
    assert numbers == {str}


def test_what_cannot_be_written_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "memory" / "outgoing.jsonl").mkdir(parents=True)
    with pytest.raises(Exception, match="cannot write down what it would send"):
        play(tmp_path)


def test_a_state_is_as_before_if_nothing_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later rounds go on: the refusal leaves no trace."""
    note, calls = outgoing.note, []

    def fail_once(*arguments: Any) -> None:
        calls.append(arguments[0].metadata.message_type)
        if calls.count("train") == 1 and calls[-1] == "train":
            raise OSError(28, "No space left on device", "outgoing.jsonl")
        note(*arguments)

    monkeypatch.setattr(outgoing, "note", fail_once)
    received = play(tmp_path, methods="scaffold", min_replies=1)
    (lost,) = [message for message in received if message.has_error()]
    assert lost.error.reason == outgoing.UNWRITTEN
    assert len([line for line in read(tmp_path) if line["message"] == "train"]) == 3


def test_a_simulated_client_writes_nothing(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    assert not list(tmp_path.rglob("outgoing.jsonl"))
