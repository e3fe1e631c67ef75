"""`fedmirage submit`: a run on a SuperLink with nodes, and the exit code that it deserves."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.runtimes.grpc import Federation
from fedmirage.server.record.results import read_results
from tests.support.commands import command
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits

pytestmark = pytest.mark.slow
SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 3,
    "batch_size": 16,
    "clients": 2,
}
LINE = 'dataset="digits(limit=300)" rounds=2 local-steps=3 batch-size=16 clients=2'


def test_the_exit_code_is_that_of_the_run(tmp_path: Path) -> None:
    home, logs = tmp_path / "flwr", tmp_path / "logs"
    home.mkdir()
    logs.mkdir()

    def submit(name: str, *more: str) -> "subprocess.CompletedProcess[str]":
        words = ["submit", "local", "--run-config", LINE, "--out", name, *more]
        variables = {**os.environ, "FLWR_HOME": str(home), "COLUMNS": "200"}
        return subprocess.run(
            command(*words),
            env=variables,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    with Federation(home, logs, False) as federation:
        federation.start(configure(SETTINGS), tmp_path / "memory")
        good = submit("good")
        assert good.returncode == 0, good.stdout + good.stderr
        assert "submitted to local (127.0.0.1:" in good.stdout
        assert "round 2/2: accuracy" in good.stdout
        assert good.stdout.endswith("results: good\n")
        again = submit("good")
        assert again.returncode == 1
        assert "holds the results of another run" in again.stderr
        bad = submit("bad", "--clients", "3", "--node-timeout", "10")
        assert bad.returncode == 1
        assert "1 of 3 clients have not appeared" in bad.stdout.replace("\n", " ")
    assert read_results(tmp_path / "bad" / "results.jsonl")[-1]["status"] == "failed"
    run_in_process(tmp_path / "plain", **SETTINGS)
    assert_same_bits(tmp_path / "plain", tmp_path / "good")
