"""Three nodes with data of their own over gRPC, and a server that reads none."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedmirage.common.settings.config import configure
from fedmirage.runtimes import grpc
from fedmirage.server.run import run
from tests.support.owners import federation, write_set
from tests.support.runs import assert_same_bits, lines

pytestmark = pytest.mark.slow

LINE = "npz(path='elsewhere.npz', classes=('a', 'b', 'c'), size=16, channels=1)"
COUNTS = (30, 3, 60)  # of the second node's three samples, each is the only one of its class


def with_data(paths: list[str]) -> type[grpc.Federation]:
    """A federation in which each node has data of its own."""

    class Owners(grpc.Federation):
        def spawn(self, name: str, *command: str) -> None:
            node = name.removeprefix("supernode-")
            own = f' data="{paths[int(node)]}"' if node.isdecimal() else ""
            start = "partition-id="
            words = [word + own if word.startswith(start) else word for word in command]
            super().spawn(name, *words)

    return Owners


@pytest.mark.parametrize("secagg", ["off", "on"])
def test_the_scores_and_the_bits_of_one_process(
    tmp_path: Path, secagg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_set(tmp_path / str(at), count, at) for at, count in enumerate(COUNTS)]
    more: dict[str, Any] = {"server_data": "none", "model": "mlp(hidden=8)", "secagg": secagg}
    grid, config = federation(tmp_path, LINE, [*paths], **more)
    run(grid, config)
    monkeypatch.setattr(grpc, "Federation", with_data(paths))
    places = {"out": str(tmp_path / "grpc"), "node-timeout": 120, "round-timeout": 120}
    grpc.deploy(configure(config.flat(), places), Console(quiet=True))
    assert_same_bits(tmp_path / "run", tmp_path / "grpc")
    found = lines(tmp_path / "grpc", "held_out")
    assert found == lines(tmp_path / "run", "held_out")
    assert [(one["round"], one["holding"], one["without"]) for one in found] == [
        (1, 2, 1),
        (2, 2, 1),
    ]
    assert found[0].get("without_partitions") == (None if secagg == "on" else [1])
    (summary,) = lines(tmp_path / "grpc", "summary")
    assert summary["final_held_out"] == found[-1]
    assert summary["final_accuracy"] is None
