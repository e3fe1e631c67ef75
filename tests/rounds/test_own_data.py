"""Nodes that train on a folder of their own, not on a share of a common set."""

from pathlib import Path

import numpy as np
import pytest

from client.app import make_app
from common.errors import FedmirageError
from common.settings.config import configure
from server.run import run
from tests.support.inprocess import InProcessGrid, node_id
from tests.support.runs import lines


def write_set(folder: Path, samples: int, seed: int, side: int = 16) -> str:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (samples, side, side), dtype=np.uint8)
    folder.mkdir(parents=True)
    np.savez(folder / "data.npz", images=images, labels=np.arange(samples) % 3)
    return str(folder / "data.npz")


def federation(tmp_path: Path, paths: list[str]) -> tuple[InProcessGrid, object]:
    server = write_set(tmp_path / "server", 60, 9)
    config = configure(
        {
            "dataset": f"npz(path='{server}', classes=3)",
            "partition": "iid",
            "clients": 2,
            "rounds": 2,
            "local_steps": 2,
        },
        {"out": str(tmp_path / "run"), "node_timeout": 0.5},
    )
    grid = InProcessGrid(make_app(config, tmp_path / "run" / "memory"), 2)
    for partition, path in enumerate(paths):
        grid.contexts[node_id(partition)].node_config["data"] = path
    return grid, config


def test_each_node_trains_on_all_of_its_own(tmp_path: Path) -> None:
    grid, config = federation(
        tmp_path, [write_set(tmp_path / "a", 30, 1), write_set(tmp_path / "b", 90, 2)]
    )
    run(grid, config)  # type: ignore[arg-type]
    last = lines(tmp_path / "run")[-1]
    assert [client["examples"] for client in last["clients"]] == [
        24,
        72,
    ]  # a fifth of each is its test share


def test_a_node_whose_images_differ_is_refused(tmp_path: Path) -> None:
    grid, config = federation(
        tmp_path, [write_set(tmp_path / "a", 30, 1), write_set(tmp_path / "b", 90, 2, side=20)]
    )
    with pytest.raises(
        FedmirageError, match="the shape of its data is '1x20x20', the server's '1x16x16'"
    ):
        run(grid, config)  # type: ignore[arg-type]


def test_a_node_without_its_data_says_what_it_looked_for(tmp_path: Path) -> None:
    grid, config = federation(
        tmp_path, [write_set(tmp_path / "a", 30, 1), str(tmp_path / "nothing.npz")]
    )
    with pytest.raises(FedmirageError, match=r"nothing\.npz"):
        run(grid, config)  # type: ignore[arg-type]
