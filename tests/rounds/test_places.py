"""Keys that are bound to partitions: no node takes another's place, and a revoked one has none."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.server.record.results import read_results
from tests.support.inprocess import node_id, run_in_process

SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "clients": 3,
    "rounds": 1,
    "local_steps": 1,
    "node_timeout": 0.5,
}


@pytest.fixture
def bind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the file that binds nodes to partitions."""

    def write(text: str) -> None:
        (tmp_path / "nodes.toml").write_text(text)
        monkeypatch.setenv("FEDMIRAGE_NODES", str(tmp_path / "nodes.toml"))

    return write


def lines(**places: int) -> str:
    """The file in which node n0, n1, ... has a partition."""
    return "".join(
        f'"{node_id(int(name[1:]))}" = {partition}\n' for name, partition in places.items()
    )


def test_nodes_that_serve_their_own_partition_are_used(tmp_path: Path, bind: Any) -> None:
    bind(lines(n0=0, n1=1, n2=2))
    run_in_process(tmp_path / "run", **SETTINGS)
    assert read_results(tmp_path / "run" / "results.jsonl")[-1]["status"] == "finished"


def test_a_node_cannot_take_the_place_of_another(tmp_path: Path, bind: Any) -> None:
    """Node 2 says that it serves partition 2, which belongs to a node that is not there."""
    bind(lines(n0=0, n1=1, n2=7))
    with pytest.raises(
        FedmirageError, match="its key is bound to partition 7, but it says partition-id=2"
    ):
        run_in_process(tmp_path / "run", **SETTINGS)


def test_a_node_that_nobody_bound_is_refused(tmp_path: Path, bind: Any) -> None:
    bind(lines(n0=0, n1=1))
    with pytest.raises(
        FedmirageError, match=f"bound to no site; .* or writes node {node_id(2)} into the file"
    ):
        run_in_process(tmp_path / "run", **SETTINGS)


@pytest.mark.parametrize("text", ["no toml", '"12" = "zero"', '"a" = 1', '"12" = true'])
def test_a_file_that_binds_nothing_ends_the_run(tmp_path: Path, bind: Any, text: str) -> None:
    """Going on without the file would let any node in."""
    bind(text)
    with pytest.raises(FedmirageError, match=r"FEDMIRAGE_NODES is .*nodes\.toml, which cannot be"):
        run_in_process(tmp_path / "run", **SETTINGS)


def test_a_missing_file_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMIRAGE_NODES", str(tmp_path / "absent.toml"))
    with pytest.raises(FedmirageError, match=r"absent\.toml, which cannot be used"):
        run_in_process(tmp_path / "run", **SETTINGS)
