"""How a SuperNode is told the way in which it answers messages."""

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.node.supernode import read_arguments


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
