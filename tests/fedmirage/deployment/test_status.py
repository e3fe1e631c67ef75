"""`fedmirage status`: what the results of a run and a SuperLink's answers come to."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import Run as FlowerRun
from flwr.proto.run_pb2 import RunStatus as FlowerStatus
from flwr.proto.transport_pb2 import Scalar

from fedmirage.cli import app
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.deployment.link import Home, Link
from fedmirage.deployment.status import describe_folder, list_runs, list_sites
from fedmirage.server.record.results import Results

LATE = "no answer within 60 s (round-timeout)"


def write_run(folder: Path, rounds: list[dict[str, Any]], **settings: Any) -> Path:
    """Write the results of a run of three clients, as far as it is."""
    folder.mkdir(parents=True)
    results = Results(folder)
    results.begin(configure({"clients": 3, "rounds": 9, **settings}), {})
    for number, line in enumerate(rounds, start=1):
        clients = [{"partition": one} for one in line.pop("clients")]
        refused = [{"partition": one, "reason": why} for one, why in line.pop("out", {}).items()]
        results.append(
            {
                **{"kind": "round", "round": number, "accuracy": 0.5, "loss": 1.0, "train": {}},
                **{"clients": clients, "refused": refused, "evaluation": {}, "bytes_up": 1},
                **{"bytes_down": 1, "seconds": {"round": 1.0}},
                **line,
            }
        )
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    names = {"sites": {"0": "site-a", "1": "site-b"}}
    second: dict[str, Any] = {"clients": [0], "out": {1: LATE, 2: "its disk is full"}}
    third: dict[str, Any] = {"clients": [0, 2], "out": {1: LATE}}
    return write_run(tmp_path / "run", [{"clients": [0, 1], **names}, second, third])


def test_a_folder_tells_who_is_late_since_when(run: Path) -> None:
    found = describe_folder(run)
    assert (found.rounds, found.state) == ("3 of 9", "running, or killed")
    assert [str(client) for client in found.clients] == [
        "site-a: its reply counted in round 3",
        f"site-b: its reply counted in round 1; left out since round 2: {LATE}",
        "client 2: its reply counted in round 3",
    ]
    Results(run).finish("failed", reason="no")
    assert describe_folder(run).state == "failed"


def test_the_command_reads_a_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(["status", str(run)], standalone_mode=False)
    said = capsys.readouterr().out
    assert "3 of 9" in said
    assert "left out since round 2" in said
    with pytest.raises(FedmirageError, match="is the folder of one run; leave it out"):
        app(["status", str(run), "--run", "7"], standalone_mode=False)


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").touch()
    with pytest.raises(FedmirageError, match="the run has not begun"):
        describe_folder(tmp_path)


class Orders:
    """A SuperLink with three nodes and two runs."""

    def __init__(self, out: Path) -> None:
        now = datetime.now(UTC)
        self.left = (now - timedelta(minutes=50)).isoformat()
        self.nodes = [
            NodeInfo(node_id=12, status="offline", last_deactivated_at=self.left),
            NodeInfo(node_id=11, status="online", last_activated_at=now.isoformat()),
            NodeInfo(node_id=10, status="registered"),
            NodeInfo(node_id=9, status="unregistered"),
            NodeInfo(node_id=8, status="online", last_activated_at=now.isoformat()),
        ]
        told = {"out": Scalar(string=str(out)), "rounds": Scalar(sint64=9)}
        running, over = FlowerStatus(status="running"), FlowerStatus(status="finished")
        over.sub_status = "completed"
        self.runs = {
            1: FlowerRun(run_id=1, status=over, pending_at="2026-11-01T00:00:00+00:00"),
            2: FlowerRun(
                run_id=2,
                status=running,
                pending_at="2026-11-02T00:00:00+00:00",
                running_at=now.isoformat(),
                override_config=told,
            ),
        }

    def ListNodes(self, _: Any) -> Any:  # noqa: N802
        return SimpleNamespace(nodes_info=self.nodes)

    def ListRuns(self, _: Any) -> Any:  # noqa: N802
        return SimpleNamespace(run_dict=self.runs)


def test_a_superlink_tells_who_is_there_and_since_when(tmp_path: Path) -> None:
    home = Home(tmp_path)
    sites = {"10": ("site-c", 2), "11": ("site-a", 0), "12": ("site-b", 1)}
    home.nodes.write_text(
        "".join(
            f'"{node}" = {{ name = {json.dumps(name)}, partition = {partition} }}\n'
            for node, (name, partition) in sites.items()
        )
    )
    orders = Orders(tmp_path)
    link = Link("here", "127.0.0.1:9093", None, True, home.flower, home)
    a, b, c, other = list_sites(link, cast(Any, orders))
    assert a[:2] == ("site-a", "0")
    assert a[2].startswith("connected since 20")
    left = f"{datetime.fromisoformat(orders.left).astimezone():%Y-%m-%d %H:%M}"
    assert b == ("site-b", "1", f"away since {left}")
    assert c == ("site-c", "2", "has never connected")
    assert other[:2] == ("node 8", "")


def test_runs_are_shown_with_their_results_if_these_are_here(run: Path) -> None:
    newest, oldest = list_runs(cast(Any, Orders(run)))
    assert (newest.name, newest.state, newest.rounds) == ("2", "running", "3 of 9")
    assert [client.late for client in newest.clients] == [False, True, False]
    assert (oldest.name, oldest.state) == ("1", "finished:completed")
    assert oldest.rounds.startswith("of ")


def test_an_unknown_run_is_said(run: Path) -> None:
    (only,) = list_runs(cast(Any, Orders(run)), "2")
    assert only.name == "2"
    with pytest.raises(FedmirageError, match=r"--run 3: the SuperLink knows no such run, but 1, 2"):
        list_runs(cast(Any, Orders(run)), "3")
