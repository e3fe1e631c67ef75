"""Clients keep their last model where something reads it, and write nothing where nothing does."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.memory import LOCAL_MODEL, Memory, versions
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, lines

TWO = {**SMALL, "rounds": 2, "clients": 2}


def remembered(folder: Path) -> list[Memory]:
    return [Memory(client, 3) for client in sorted((folder / "memory").glob("*/client-*"))]


@pytest.mark.parametrize(
    "settings",
    [
        {"methods": "moon"},
        {"methods": "fedcog(start=2, samples=4, steps=1)"},
        {"methods": "fedper"},
        {"methods": "fedavg", "local_evaluation": True},
        {"methods": "fedavg", "keep_models": "all"},
    ],
)
def test_a_model_that_is_read_later_is_kept(tmp_path: Path, settings: dict[str, Any]) -> None:
    run_in_process(tmp_path, **TWO, **settings)
    kept = remembered(tmp_path)
    assert [memory.age for memory in kept] == [1, 1]
    assert all(LOCAL_MODEL in memory for memory in kept)


def test_fedavg_writes_no_memory(tmp_path: Path) -> None:
    run_in_process(tmp_path, **TWO)
    assert remembered(tmp_path) == []
    assert lines(tmp_path, "config")[0]["resolved"]["keeps_local_models"] is False


def test_a_method_that_remembers_something_else_does_not_keep_the_model(tmp_path: Path) -> None:
    run_in_process(tmp_path, **TWO, methods="scaffold")
    kept = remembered(tmp_path)
    assert [memory.age for memory in kept] == [1, 1]
    assert not any(LOCAL_MODEL in memory for memory in kept)


@pytest.mark.parametrize(
    ("settings", "counted"),
    [({}, 1), ({"secagg": "on"}, 1), ({"dp": "local(clip=1, noise=0.1)"}, 0)],
)
def test_a_memory_that_fell_back_is_noted(
    tmp_path: Path, settings: dict[str, Any], counted: int
) -> None:
    """Under local noise a client says nothing of itself."""
    settings = {**TWO, "clients": 3, "methods": "moon", **settings}
    run_in_process(tmp_path, **settings)
    (newest,) = versions(sorted((tmp_path / "memory").glob("*/client-*"))[1])[-1:]
    newest.write_bytes(newest.read_bytes()[:-1])
    run_in_process(tmp_path, **{**settings, "rounds": 3}, resume=str(tmp_path))
    told = [line.get("memory") for line in lines(tmp_path)]
    assert told == [None, None, {"fell_back": 1} if counted else None]
    (summary,) = lines(tmp_path, "summary")
    said = [note for note in summary.get("notes", []) if "remembered" in note]
    sentence = "round 3: 1 clients could not read what they remembered of their last round"
    assert len(said) == counted
    assert all(note.startswith(sentence) for note in said)
