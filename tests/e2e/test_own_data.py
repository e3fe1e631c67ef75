"""Data and a split of a Python program: in every runtime the bits of the same data from files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedmirage
from tests.support.files import labels, pictures
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, without_times

IMAGES, LABELS = pictures(90, 16, 16, 3), labels(90, 3)
SHORT: dict[str, Any] = {"rounds": 2, "local_steps": 2, "batch_size": 8, "methods": "scaffold"}


def every_third(labels: Any, clients: int, generator: np.random.Generator) -> list[Any]:
    order = generator.permutation(len(labels))
    return [order[client::clients] for client in range(clients)]


@pytest.mark.parametrize("runtime", ["inprocess", "simulation", "grpc"])
def test_the_same_bits_as_from_files(
    tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDMIRAGE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    halves = [(IMAGES[:40], LABELS[:40]), (IMAGES[40:60], LABELS[40:60])]
    data = fedmirage.OwnData(halves, test=(IMAGES[60:], LABELS[60:]))
    natural = fedmirage.run(dataset=data, runtime=runtime, quiet=True, **SHORT)
    drawn = fedmirage.run(
        dataset=data, partition=every_third, clients=2, runtime=runtime, quiet=True, **SHORT
    )
    np.savez(
        tmp_path / "file.npz",
        train_images=IMAGES[:60],
        train_labels=LABELS[:60],
        test_images=IMAGES[60:],
        test_labels=LABELS[60:],
    )
    kept = json.loads((tmp_path / "data" / drawn.settings["partition"].split("'")[1]).read_text())
    splits = {"natural": [[*range(40)], [*range(40, 60)]], "drawn": kept["seeds"]["0"]}
    for name, run in (("natural", natural), ("drawn", drawn)):
        (tmp_path / f"{name}.json").write_text(json.dumps(splits[name]))
        lines = {"dataset": "npz(path='file.npz')", "partition": f"indices(path='{name}.json')"}
        run_in_process(tmp_path / name, clients=2, **lines, **SHORT)
        assert_same_bits(tmp_path / name, run.folder)
        assert without_times(tmp_path / name) == without_times(run.folder)
