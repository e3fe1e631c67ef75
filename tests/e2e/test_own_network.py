"""Somebody's own network over gRPC, as real processes: a node imports what its owner lists."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.runtimes.grpc import Federation
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "rounds": 1,
    "local_steps": 2,
    "batch_size": 16,
    "clients": 2,
}
ALLOWED = "tests.support.nets:Rich(head='fc')"
OTHER = "tests.support.nets:Plain"


def test_nodes_train_what_they_allow_and_refuse_the_rest(tmp_path: Path) -> None:
    """The nodes of one federation: they were started for the first network, and allow no other."""
    logs = tmp_path / "logs"
    logs.mkdir()
    with Federation(tmp_path, logs, False) as federation:
        federation.start(configure(SETTINGS | {"model": ALLOWED}), tmp_path / "memory")
        refused = tmp_path / "refused"
        run_id = federation.submit(configure(SETTINGS | {"model": OTHER, "out": str(refused)}))
        sentence = "this node does not import tests.support.nets for a run; its owner lists what"
        assert sentence in federation.wait(run_id, refused)["reason"]
        evil, proof = tmp_path / "evil", tmp_path / "proof"
        command = f"os:system(command='touch {proof}')"
        run_id = federation.submit(configure(SETTINGS | {"model": command, "out": str(evil)}))
        sentence = "this node does not import os for a run; its owner lists what it may in allow="
        assert sentence in federation.wait(run_id, evil)["reason"]
        assert not proof.exists()
        run = tmp_path / "run"
        run_id = federation.submit(configure(SETTINGS | {"model": ALLOWED, "out": str(run)}))
        assert federation.wait(run_id, run)["status"] == "finished"
    run_in_process(tmp_path / "plain", **SETTINGS, model=ALLOWED)
    assert_same_bits(tmp_path / "plain", run)
