"""SuperNodes that run their own code only, as real processes: a run with changed code is refused by
them, and the same nodes then serve a run with the right code."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.runtimes.bundle import assemble
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


def test_a_run_with_changed_code_is_refused_by_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, proof = tmp_path / "logs", tmp_path / "executed"
    logs.mkdir()
    evil = assemble(tmp_path / "evil")
    with (evil / "client" / "app.py").open("a") as module:
        module.write(f"\nopen({str(proof)!r}, 'w').close()\n")
    with Federation(tmp_path, logs, False) as federation:
        federation.start(configure(SETTINGS), tmp_path / "memory")
        with monkeypatch.context() as patch:
            patch.setattr("fedmirage.runtimes.superlink.app_folder", lambda spare: evil)
            run_id = federation.submit(configure(SETTINGS | {"out": str(tmp_path / "refused")}))
        refused = federation.wait(run_id, tmp_path / "refused")
        assert (
            "brought other code of the same version: it differs in client/app." in refused["reason"]
        )
        run_id = federation.submit(configure(SETTINGS | {"out": str(tmp_path / "run")}))
        federation.wait(run_id, tmp_path / "run")
    assert not proof.exists()
    assert "a run is refused: this node runs" in (logs / "supernode-0.log").read_text()
    run_in_process(tmp_path / "plain", **SETTINGS)
    assert_same_bits(tmp_path / "plain", tmp_path / "run")
