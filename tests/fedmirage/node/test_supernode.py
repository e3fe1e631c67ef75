"""How a SuperNode is told the way in which it answers messages."""

from pathlib import Path

import pytest

from fedmirage.client.secagg.notes import Notes
from fedmirage.common.errors import FedmirageError
from fedmirage.common.secagg.protocol import SecureTask
from fedmirage.node.supernode import read_arguments, start


def test_a_node_forks_tasks_and_waits_adaptively_unless_told_otherwise() -> None:
    way = read_arguments(["--insecure", "--superlink", "h:9092"])
    assert (way.code, way.tasks, way.waiting) == ("own", "forked", "adaptive")
    assert way.rest == ["--insecure", "--superlink", "h:9092"]
    assert not way.flowers_own


def test_options_come_before_variables_and_variables_before_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDMIRAGE_TASKS", "fresh")
    monkeypatch.setenv("FEDMIRAGE_WAITING", "flower")
    assert read_arguments(["--code", "any"]).flowers_own
    way = read_arguments(["--tasks=forked", "--insecure"])
    assert (way.tasks, way.waiting, way.rest) == ("forked", "flower", ["--insecure"])


@pytest.mark.parametrize("option", ["code", "tasks", "waiting"])
def test_an_unknown_way_is_refused(option: str) -> None:
    with pytest.raises(FedmirageError, match=f"--{option} is 'odd'; write "):
        read_arguments([f"--{option}", "odd"])


def test_a_variable_with_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMIRAGE_TASKS", "warm")
    with pytest.raises(FedmirageError, match="'warm'; write forked or fresh"):
        read_arguments([])


def test_a_node_forgets_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Then it may answer the same rounds again."""
    task = SecureTask("0123456789abcdef", 1, bytes(32))
    for partition in (0, 1):
        Notes(tmp_path, partition, task, "data").note_opened([0, 1, 2])
    config = ["--node-config", f'partition-id=0 memory="{tmp_path}"']
    start(["--forget", task.token, *config])
    assert "has answered 2 rounds of run 0123456789abcdef" in capsys.readouterr().out
    with pytest.raises(FedmirageError, match="notes no round of this run"):
        start(["--forget", task.token, *config])
