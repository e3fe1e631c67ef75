"""Checkpoints and results on disk: complete or absent, and unchanged when they are read again."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from flwr.server.strategy import FedAvg

from fedmirage.common.errors import FedmirageError
from fedmirage.common.methods.ema import Ema
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.server.methods.ema import EmaServer
from fedmirage.server.record.checkpoint import Checkpoint, read_checkpoint
from fedmirage.server.record.results import Results
from fedmirage.server.record.results import read_results as read_lines
from fedmirage.server.strategy.wrapper import load_state


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    state = {
        "dynafed.images": [np.ones((2, 3), np.float32)],
        "dynafed.phase": "fitted",
        "fedopt.steps": 3,
        "x.none": None,
    }
    state["x.nested"] = {"a": np.arange(4), "b": [1, 2.5]}
    kept = Checkpoint(
        7,
        [np.zeros(2, np.float32), np.array(3.0, np.float32)],
        "abc",
        "def@5",
        state,
        {"waited": 2},
    )
    kept.write(tmp_path / "checkpoint.safetensors")
    back = read_checkpoint(tmp_path / "checkpoint.safetensors")
    assert (back.round, back.token, back.parent, back.progress) == (
        7,
        "abc",
        "def@5",
        {"waited": 2},
    )
    assert back.shared[1].shape == ()
    np.testing.assert_array_equal(back.strategy["dynafed.images"][0], state["dynafed.images"][0])
    np.testing.assert_array_equal(back.strategy["x.nested"]["a"], np.arange(4))
    assert back.strategy["x.nested"]["b"] == [1, 2.5]
    assert (
        back.strategy["dynafed.phase"],
        back.strategy["fedopt.steps"],
        back.strategy["x.none"],
    ) == ("fitted", 3, None)
    assert list(tmp_path.iterdir()) == [tmp_path / "checkpoint.safetensors"]


def test_a_missing_or_broken_checkpoint_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="there is no checkpoint"):
        read_checkpoint(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00notjson!")
    with pytest.raises(FedmirageError, match="cannot be read"):
        read_checkpoint(tmp_path / "bad.safetensors")


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    Checkpoint(7, [np.ones(100, np.float32)], "abc").write(path)
    damaged = bytearray(path.read_bytes())
    damaged[-3] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(FedmirageError, match=r"is damaged.*restore it from a copy"):
        read_checkpoint(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


ODD = [None, True, -1, "x", [], {}, [None], {"x": None}, 10**400, "../x", 1.5]


def test_false_facts_of_a_checkpoint_get_a_sentence(tmp_path: Path) -> None:
    """Its token names a folder, and what methods keep is computed with."""
    path, strategy = tmp_path / "checkpoint.safetensors", EmaServer(FedAvg(), Ema())
    state = {"ema.mean": [np.ones(2)], "ema.entered": 3}
    Checkpoint(7, [np.ones(2)], "abc", "def@5", state, {"waited": 2}, {"0": 7}).write(path)
    arrays, facts = read_arrays(path)
    load_state(strategy, read_checkpoint(path).strategy)
    places = [(facts, key) for key in facts]
    places += [(facts["progress"], "waited"), (facts["counted"], "0")]
    places += [(facts["strategy"]["dict"], key) for key in state]
    places += [(facts["strategy"]["dict"]["ema.entered"], "plain")]
    refused = 0
    for owner, key in places:
        kept = owner[key]
        for value in ODD:
            owner[key] = value
            write_arrays(path, arrays, facts)
            try:
                load_state(strategy, read_checkpoint(path).strategy)
            except FedmirageError as error:
                refused += bool(str(error))
        owner[key] = kept
    assert refused > len(places) * len(ODD) * 2 // 3


def test_results_that_are_not_text_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes(b'{"kind": "config"}\n\xff\xfe\n')
    with pytest.raises(FedmirageError, match="not UTF-8 at byte 19; restore it"):
        read_lines(tmp_path / "results.jsonl")


def line(number: int, accuracy: float | None) -> dict[str, object]:
    known = {"kind": "round", "round": number, "accuracy": accuracy, "seconds": {"round": 1.0}}
    return {**known, "bytes_up": 1, "bytes_down": 2}


def test_results_are_lines_and_the_summary_reads_them(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.begin(configure({"seed": 5}), {"device": "cpu"})
    for number, accuracy in enumerate([0.1, None, 0.5, 0.4, 0.3, 0.2, float("nan")], start=1):
        results.append(line(number, accuracy))
    summary = results.finish("finished", seconds=1.0)
    assert (summary["final_accuracy"], summary["best_accuracy"], summary["rounds"]) == (0.2, 0.5, 7)
    assert summary["last5_accuracy"] == pytest.approx(0.3)
    lines = [json.loads(text) for text in results.path.read_text().splitlines()]
    assert (lines[0]["kind"], lines[0]["seed"], lines[-1]["kind"]) == ("config", 5, "summary")
    assert lines[7]["accuracy"] is None
    assert "torch" in lines[0]["versions"]


def test_a_torn_line_is_passed_over_and_a_resume_forgets_what_came_after(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.begin(configure(), {})
    for number in (1, 2, 3):
        results.append(line(number, 0.1))
    results.finish("interrupted")
    with results.path.open("a") as file:
        file.write('{"kind": "rou')
    results.forget_after(2)
    assert [entry.get("round") for entry in read_lines(results.path)] == [None, 1, 2]
