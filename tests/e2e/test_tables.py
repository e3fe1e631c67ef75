"""Nodes with a CSV file each, as real processes over gRPC."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedmirage.runtimes import grpc
from fedmirage.runtimes.quick import BASE, line
from fedmirage.server.run import run
from tests.support.runs import assert_same_bits, lines
from tests.support.tables import federation, line_of, write_schema, write_table

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Path]]:
    """Tables of three nodes, which the nodes of the gRPC runtime are told as if by their owners."""
    schema = write_schema(tmp_path, name="copy.toml")
    paths = [write_table(tmp_path, 20 + 10 * node, node, f"{node}.csv") for node in range(3)]
    told = iter([f' data="{path}" schema="{schema}"' for path in paths])
    monkeypatch.setattr(grpc, "grant", lambda config: next(told))
    return [(path, schema) for path in paths]


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Settings of a run whose server has a table of its own."""
    dataset = line_of(write_table(folder, 60, 9, "server.csv"), write_schema(folder))
    return {**BASE, "dataset": dataset, "partition": "iid", "methods": line("fedcog"), **more}


def test_the_same_bits_over_grpc(tmp_path: Path, nodes: list[tuple[Path, Path]]) -> None:
    grid, plain = federation(tmp_path / "plain", settings(tmp_path), nodes)
    run(grid, plain)
    out = tmp_path / "grpc"
    grpc.deploy(plain.model_copy(update={"out": str(out), "node_timeout": 60.0}), Console())
    assert_same_bits(tmp_path / "plain" / "run", out)
    assert lines(out, "normalisation") == lines(tmp_path / "plain" / "run", "normalisation")


def test_a_secure_sum_over_grpc(tmp_path: Path, nodes: list[tuple[Path, Path]]) -> None:
    grid, plain = federation(tmp_path / "plain", settings(tmp_path), nodes)
    run(grid, plain)
    more = {"out": str(tmp_path / "grpc"), "node_timeout": 60.0, "secagg": "on"}
    grpc.deploy(plain.model_copy(update=more), Console())
    found, expected = (
        lines(folder, "normalisation")[0]["columns"]
        for folder in (tmp_path / "grpc", tmp_path / "plain" / "run")
    )
    for name, column in expected.items():
        assert found[name]["count"] == column["count"]
        assert found[name]["mean"] == pytest.approx(column["mean"], rel=1e-6)
        assert found[name]["std"] == pytest.approx(column["std"], rel=1e-4)
    assert all(told["refused"] == [] for told in lines(tmp_path / "grpc"))
