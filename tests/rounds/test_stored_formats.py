"""What earlier versions have written is still read: each folder in tests/support/stored is named
after the commit that wrote it.

`one` and `two` are runs of two rounds; `after-round-4.safetensors` is the checkpoint to which the
same settings led that commit in four rounds. Between them they hold the memories and states of
seven methods. `nodes.txt` are lines that nodes were started with.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.common.config import parse_config_args

import fedmirage
from fedmirage.client.app import make_app
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig, configure, defaults
from fedmirage.server.record.checkpoint import FILE, read_checkpoint
from fedmirage.server.run import run
from fedmirage.settings.layers import settle
from tests.support.inprocess import InProcessGrid, node_id, run_in_process
from tests.support.locked import only_with_the_locked_pair
from tests.support.pairs import BASE
from tests.support.runs import lines
from tests.support.secure_rounds import exchange_long_term_keys

STORED = sorted((Path(__file__).parents[1] / "support" / "stored").iterdir())
RUNS = [folder / name for folder in STORED for name in ("one", "two")]
RECORDS = Path(__file__).parents[2] / "docs" / "results" / "runs"

each_run = pytest.mark.parametrize("old", RUNS, ids=lambda folder: "-".join(folder.parts[-2:]))


@each_run
def test_a_model_predicts_what_was_written_down(old: Path) -> None:
    written = lines(old)[-1]
    model, facts = fedmirage.load_model(old / "model.safetensors")
    assert (facts.round, facts.methods) == (2, lines(old, "config")[0]["methods"])
    test = load("digits(limit=60, size=8)").test
    outputs = model(facts.normalise(torch.tensor(test.images)))[:, : len(facts.classes)]
    accuracy = float((outputs.argmax(1).numpy() == test.labels).mean())
    assert accuracy == pytest.approx(written["accuracy"], abs=0.006)  # one image of 200


@only_with_the_locked_pair
@each_run
def test_a_checkpoint_goes_on_nearly_as_it_did(old: Path, tmp_path: Path) -> None:
    found, wanted = gone_on(old, tmp_path)
    assert not same_bits(found, weights(old / FILE))
    assert all(np.allclose(a, b, atol=1e-3) for a, b in zip(found, wanted, strict=True))


@only_with_the_locked_pair
@each_run
def test_a_checkpoint_goes_on_with_the_same_bits(old: Path, tmp_path: Path) -> None:
    """On a machine that computes the first two rounds as that one did."""
    found, wanted = gone_on(old, tmp_path)
    if not same_bits(found, wanted):
        settings = settle([], {"resume": str(old), "rounds": 4}).flat()
        fresh = {"out": tmp_path / "fresh", "resume": "", "rounds": 2}
        run_in_process(**{**settings, **fresh})
        assert not same_bits(weights(tmp_path / "fresh" / FILE), weights(old / FILE))


@pytest.mark.parametrize("folder", sorted(RECORDS.glob("*")), ids=lambda folder: folder.name)
def test_every_record_is_read(folder: Path) -> None:
    record = fedmirage.read_run(folder)
    assert max(record.rounds.index) == record.summary["rounds"]
    assert 0 < record.summary["final_accuracy"] <= 1
    known = {key: value for key, value in record.settings.items() if key in defaults()}
    assert configure(known, {"resume": ""}).methods == record.settings["methods"]


@pytest.mark.parametrize("folder", STORED, ids=lambda folder: folder.name)
def test_a_node_starts_with_the_lines_it_was_started_with(folder: Path, tmp_path: Path) -> None:
    """Every key has its effect: a memory, a demand, a key that others know, data of its own."""
    (tmp_path / "keys").mkdir()
    exchange_long_term_keys(tmp_path / "keys", 4)
    common = write_digits(tmp_path / "common.npz", slice(0, 40))
    write_digits(tmp_path / "own.npz", slice(40, 57))
    nodes = (folder / "nodes.txt").read_text().replace("HERE", str(tmp_path)).splitlines()
    settings = {**BASE, "dataset": f"npz(path={common!r})", "rounds": 1, "retries": 0}
    safe = {"secagg": "on", "dp": "central(clip=1, noise=2)"}
    start(nodes, configure(settings, safe, {"out": str(tmp_path / "safe")}))
    assert lines(tmp_path / "safe")[0]["secagg"]["clients"] == 4
    assert {path.name for path in tmp_path.glob("memory-*")} == {
        f"memory-{who}" for who in range(4)
    }
    start(nodes[:2], configure(settings, {"clients": 2, "out": str(tmp_path / "two")}))
    assert lines(tmp_path / "two")[0]["clients"][1]["examples"] == 17
    with pytest.raises(FedmirageError, match=r"requires secagg and dp\(noise>=2\), but the run"):
        start(nodes, configure(settings, {"out": str(tmp_path / "unsafe")}))


def gone_on(old: Path, tmp_path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The weights after four rounds: of a copy that is resumed now, and of the commit itself."""
    cut = tmp_path / "cut"
    shutil.copytree(old, cut)
    settings = settle([], {"resume": str(cut), "rounds": 4}).flat()
    run_in_process(**{**settings, "out": cut})
    return weights(cut / FILE), weights(old / "after-round-4.safetensors")


def write_digits(path: Path, chosen: slice) -> str:
    digits = load("digits(limit=60, size=8)").train
    np.savez(path, train_images=digits.images[chosen, 0], train_labels=digits.labels[chosen])
    return str(path)


def start(nodes: list[str], config: RunConfig) -> None:
    grid = InProcessGrid(make_app(config), len(nodes))
    for partition, line in enumerate(nodes):
        grid.contexts[node_id(partition)].node_config = parse_config_args([line])
    run(grid, config)


def weights(checkpoint: Path) -> list[np.ndarray]:
    return read_checkpoint(checkpoint).shared


def same_bits(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return [array.tobytes() for array in one] == [array.tobytes() for array in other]
