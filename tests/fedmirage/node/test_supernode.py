"""How a SuperNode is told the way in which it answers messages."""

from pathlib import Path

import click
import pytest

from fedmirage.cli import app
from fedmirage.client.secagg.notes import Notes
from fedmirage.common.errors import FedmirageError
from fedmirage.common.secagg.protocol import SecureTask
from fedmirage.runtimes.grpc import free_addresses
from tests.support.nodes import read_way


def test_a_node_forks_tasks_and_waits_adaptively_unless_told_otherwise() -> None:
    way = read_way("--insecure", "--superlink", "h:9092", "--max-retries", "3")
    assert (way.code, way.tasks, way.waiting) == ("own", "forked", "adaptive")
    expected = ["--insecure", "--superlink", "h:9092"]
    expected += ["--clientappio-api-address", "127.0.0.1:9094", "--max-retries", "3"]
    assert way.for_flower == expected
    assert not way.flowers_own


def test_options_come_before_variables_and_variables_before_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDMIRAGE_TASKS", "fresh")
    monkeypatch.setenv("FEDMIRAGE_WAITING", "flower")
    assert read_way("--code", "any").flowers_own
    way = read_way("--tasks=forked", "--insecure")
    assert (way.tasks, way.waiting) == ("forked", "flower")


@pytest.mark.parametrize("option", ["code", "tasks", "waiting"])
def test_an_unknown_way_is_refused(option: str) -> None:
    problems = read_way(f"--{option}", "odd").find_problems()
    assert f"--{option} is 'odd'; write " in problems[0]


def test_a_variable_with_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMIRAGE_TASKS", "warm")
    assert "'warm'; write forked or fresh" in read_way().find_problems()[0]


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    given = ["--root-certificates", str(tmp_path / "ca.crt"), "--code", "odd"]
    given += ["--auth-supernode-private-key", str(tmp_path / "key")]
    free = free_addresses(1)[0]
    assert len(read_way(*given, "--clientappio-api-address", free).find_problems()) == 3


def test_a_misspelt_option_is_answered_with_the_right_one() -> None:
    with pytest.raises(click.NoSuchOption) as refused:
        read_way("--node-cnfig", "partition-id=0")
    assert "Did you mean '--node-config'?" in refused.value.format_message()


def test_a_node_forgets_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Then it may answer the same rounds again."""
    task = SecureTask("0123456789abcdef", 1, bytes(32))
    for partition in (0, 1):
        Notes(tmp_path, partition, task, "data").note_opened([0, 1, 2])
    words = ["supernode", "--forget", task.token]
    words += ["--node-config", f'partition-id=0 memory="{tmp_path}"']
    app(words, standalone_mode=False)
    assert "has answered 2 rounds of run 0123456789abcdef" in capsys.readouterr().out
    with pytest.raises(FedmirageError, match="notes no round of this run"):
        app(words, standalone_mode=False)
