"""Sites have names: in results.jsonl once, and in sentences in place of numbers."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message, MessageType
from flwr.common.constant import ErrorCode
from rich.console import Console

from fedmirage.api.runs import RunResult
from fedmirage.common.errors import FedmirageError
from fedmirage.report.command import write_report
from fedmirage.server.messages.node_ids import VARIABLE
from fedmirage.show.progress import Watch
from tests.support.deployed import deploy
from tests.support.inprocess import node_id
from tests.support.runs import lines

ONE_ROUND: dict[str, Any] = {"rounds": 1}


def test_names_are_written_once_and_keys_stay(tmp_path: Path) -> None:
    deploy(tmp_path, {}, ["site-a"], rounds=2)
    first, second = lines(tmp_path)
    assert first["sites"] == {"0": "site-a"}
    assert "sites" not in second
    run = RunResult(tmp_path)
    assert list(run.clients["site"]) == ["site-a", ""] * 2
    assert not [name for name in run.rounds if "site" in name]
    assert [client["partition"] for client in first["clients"]] == [0, 1]


def test_without_names_nothing_is_written(tmp_path: Path) -> None:
    deploy(tmp_path, {}, **ONE_ROUND)
    assert "sites" not in lines(tmp_path)[0]


def test_sentences_name_the_site(tmp_path: Path) -> None:
    """One site cannot train; the other has no name."""

    def fail(sender: int, reply: Message) -> Message:
        if sender == node_id(0) and reply.metadata.message_type == MessageType.TRAIN:
            error = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "its disk is full")
            reply.__dict__.update(_error=error, _content=None)
        return reply

    deploy(tmp_path, {}, ["site-a"], fail, **ONE_ROUND)
    console = Console(record=True, width=200)
    with Watch(console, tmp_path, 1):
        pass
    assert "left out, site-a: it failed: its disk is full" in console.export_text()
    written, _ = write_report([tmp_path], None, {}, False)
    page = written["page"].read_text()
    assert "round 1: site-a was left out: it failed: its disk is full" in page


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["site-a", "site-a"], "it says that it is 'site-a', and so does the node of client [01]"),
        (["site-a", "3"], r"it calls its site '3'; write up to 40 letters"),
    ],
)
def test_two_sites_with_one_name_and_names_that_are_none(
    tmp_path: Path, names: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.1)
    with pytest.raises(FedmirageError, match=said):
        deploy(tmp_path, {}, names, **ONE_ROUND, node_timeout=60)


def test_who_claims_anothers_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.1)
    bound = {node_id(0): ("site-a", 0), node_id(1): ("site-b", 1)}
    entries = "".join(
        f'"{node}" = {{ name = "{name}", partition = {partition} }}\n'
        for node, (name, partition) in bound.items()
    )
    (tmp_path / "nodes.toml").write_text(entries)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nodes.toml"))
    out = tmp_path / "run"
    with pytest.raises(
        FedmirageError, match=r"no node serves partition 1 \(site-b\)\. site-b was "
    ):
        deploy(out, {}, ["site-a", "site-a"], **ONE_ROUND, node_timeout=60)
    deploy(tmp_path / "good", {}, **ONE_ROUND)
    assert lines(tmp_path / "good")[0]["sites"] == {"0": "site-a", "1": "site-b"}
