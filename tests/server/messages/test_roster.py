"""Nodes that are slow or fail when they are first asked: asked again, until the deadline."""

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Error, Message
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Config, MessageTypeLegacy, Scalar
from flwr.common.constant import ErrorCode

from fedmirage.common.errors import FedmirageError
from fedmirage.common.seeds import draw_order
from fedmirage.runtimes.inprocess import LocalGrid
from fedmirage.server.messages.node_ids import VARIABLE
from fedmirage.server.messages.replies import exchange
from fedmirage.server.messages.roster import Roster
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import SMALL, lines, without_times

FAULTY = node_id(2)


def fail_first(code: int, times: int) -> Any:
    """Let the first answers of one node be an error that its program did not write."""
    asked: Counter[int] = Counter()

    def intercept(sender: int, reply: Message) -> Message | None:
        if reply.metadata.message_type != MessageTypeLegacy.GET_PROPERTIES:
            return reply
        asked[sender] += 1
        if sender == FAULTY and asked[sender] <= times:
            reply.__dict__.update(_error=Error(code, "Message Unavailable"), _content=None)
        return reply

    return intercept


@pytest.mark.parametrize(
    "code",
    [ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE, ErrorCode.CLIENT_APP_CRASHED],
)
def test_a_node_whose_first_answers_fail_is_asked_again(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.AGAIN", 0.0)
    settings = {**SMALL, "rounds": 1, "node_timeout": 20}
    run_in_process(tmp_path / "failing", fail_first(code, times=3), **settings)
    run_in_process(tmp_path / "fine", **settings)
    assert [len(line["clients"]) for line in lines(tmp_path / "failing")] == [SMALL["clients"]]
    assert without_times(tmp_path / "failing") == without_times(tmp_path / "fine")


def test_a_node_that_always_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    faulty = fail_first(ErrorCode.CLIENT_APP_CRASHED, times=10**9)
    said = (
        r"1 of 4 clients are connected, but have not said within 1 s \(node-timeout\) which"
        rf" partition they serve: partition 2 .*Node {FAULTY} was asked again and again: it failed:"
    )
    with pytest.raises(FedmirageError, match=said):
        run_in_process(tmp_path, faulty, **SMALL, node_timeout=1)


def test_what_a_node_says_itself_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.1)
    faulty = fail_first(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, times=1)
    with pytest.raises(FedmirageError, match="1 of 4 nodes were refused"):
        run_in_process(tmp_path, faulty, **SMALL, node_timeout=60)


@pytest.mark.parametrize("times", [10**9, 3])
def test_a_run_goes_on_without_a_node_of_another_release(
    tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node takes part again as soon as it is of the same release."""
    monkeypatch.setattr("fedmirage.server.messages.roster.AGAIN", 0.0)
    other = fail_first(ErrorCode.INVALID_FAB, times)
    settings = {**SMALL, "rounds": 3, "min_replies": 3, "participation": 1.0}
    run_in_process(tmp_path, other, **settings, node_timeout=60)
    counted = [[one["partition"] for one in line["clients"]] for line in lines(tmp_path)]
    assert counted == ([[0, 1, 3]] * 3 if times > 3 else [[0, 1, 3]] * 2 + [[0, 1, 2, 3]])
    (note,) = lines(tmp_path, "note")
    assert note["text"].startswith(f"Node {FAULTY} takes no part until it is of the same release")


def test_an_admitted_node_of_another_release_excuses_its_own_site_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 12 has partition 5, and nobody has come for partition 1."""
    (tmp_path / "nodes.toml").write_text('"11" = 0\n"12" = 5\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nodes.toml"))
    roster = Roster(LocalGrid(ClientApp(make_slow), 2), 2, 0, lambda *_: [], {})
    roster.outdated = {12}
    assert not roster._are_outdated([1])
    assert roster._are_outdated([5])
    roster.outdated = {12, 13}  # and of node 13 nothing is known
    assert roster._are_outdated([1])


def test_too_few_nodes_of_the_same_release_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.1)
    monkeypatch.setattr("fedmirage.server.messages.roster.AGAIN", 0.0)
    other = fail_first(ErrorCode.INVALID_FAB, times=10**9)
    with pytest.raises(FedmirageError, match=rf"1 of 4 nodes were .*Node {FAULTY} was refused"):
        run_in_process(tmp_path, other, **SMALL, min_replies=4, node_timeout=60)


class Slow(NumPyClient):
    """Says which partition it serves, after a while."""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    def get_properties(self, config: Config) -> dict[str, Scalar]:
        time.sleep(0.3)
        return {"partition": self.partition}


def make_slow(context: Context) -> Client:
    return Slow(int(context.node_config["partition-id"])).to_client()


@pytest.mark.parametrize("batch", [2, 50])
def test_clients_of_this_host_are_waited_for_as_long_as_one_after_the_other_answers(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together take three times as long as node-timeout."""
    monkeypatch.setattr("fedmirage.server.messages.roster.BATCH", batch)
    grid = LocalGrid(ClientApp(make_slow), 10)
    grid.alike = False
    roster = Roster(grid, 10, 0, partial(exchange, grid), {})
    roster.await_all(1.0)
    assert sorted(roster.proxies) == list(range(10))


class Refused(Slow):
    """Has other data than the server."""

    def get_properties(self, config: Config) -> dict[str, Scalar]:
        return {"partition": self.partition, "classes": 3}


def test_one_of_a_million_simulated_clients_answers_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid = LocalGrid(ClientApp(make_slow), 1_000_000)
    roster = Roster(grid, 1_000_000, 0, partial(exchange, grid), {})
    roster.await_all(30.0)
    roster.refresh(30.0)  # asks nobody again
    drawn = roster.draw(1, without={3}).sample(5)
    order = [one for one in draw_order(0, 1, 1_000_000) if one != 3]
    assert [int(proxy.cid) for proxy in drawn] == sorted(order[:5])
    assert [proxy.node_id for proxy in drawn] == [node_id(int(proxy.cid)) for proxy in drawn]  # type: ignore[attr-defined]
    assert not roster.all_own
    with pytest.raises(KeyError):
        roster.proxies[1_000_000]

    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.1)
    grid = LocalGrid(ClientApp(lambda context: Refused(0).to_client()), 1_000_000)
    roster = Roster(grid, 1_000_000, 0, partial(exchange, grid), {"classes": 10})
    with pytest.raises(FedmirageError, match="the classes of its data is 3, the server's 10"):
        roster.await_all(30.0)
