"""Federations in one process whose nodes have data of their own."""

from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.client.app import make_app
from fedmirage.common.settings.config import RunConfig, configure
from tests.support.files import png, write_files
from tests.support.inprocess import InProcessGrid, node_id

CLOTHES = ("Tshirt", "bag", "sandal", "trouser")


def write_set(folder: Path, samples: int, seed: int, side: int = 16, tested: int = 0) -> str:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (samples + tested, side, side), dtype=np.uint8)
    labels = np.arange(samples + tested) % 3
    folder.mkdir(parents=True)
    arrays = {"train_images": images[:samples], "train_labels": labels[:samples]}
    if tested:
        arrays |= {"test_images": images[samples:], "test_labels": labels[samples:]}
    np.savez(folder / "data.npz", **arrays)
    return str(folder / "data.npz")


def write_folders(folder: Path, *names: str, count: int = 6) -> str:
    """Pictures whose brightness depends on the position of their class among `names`."""
    files = {
        f"{name}/{number}.png": png(np.full((16, 16), 40 * place + number, np.uint8))
        for place, name in enumerate(names)
        for number in range(count)
    }
    write_files(folder, files)
    return str(folder)


def federation(
    tmp_path: Path, dataset: str, paths: list[str | None], **settings: Any
) -> tuple[InProcessGrid, RunConfig]:
    config = configure(
        {
            "dataset": dataset,
            "partition": "iid",
            "clients": len(paths),
            "rounds": 2,
            "local_steps": 2,
            **settings,
        },
        {"out": str(tmp_path / "run"), "node_timeout": 0.5},
    )
    grid = InProcessGrid(make_app(config, tmp_path / "run" / "memory"), len(paths))
    for partition, path in enumerate(paths):
        if path is not None:
            grid.contexts[node_id(partition)].node_config["data"] = path
    return grid, config
