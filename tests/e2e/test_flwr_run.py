"""`flwr run .`, for people who know Flower: its own simulation, and a SuperLink with SuperNodes;
exactly as docs/running.md says."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.common.settings.config import configure
from fedmirage.common.settings.project import PROJECT_FILE
from fedmirage.runtimes.grpc import ENVIRONMENT, Federation, free_addresses
from fedmirage.runtimes.guardian import processes_with
from fedmirage.runtimes.superlink import PROGRAMS
from fedmirage.server.record.results import read_results
from tests.support.commands import wait_until
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, weights

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 3,
    "batch_size": 16,
    "clients": 3,
}
LINE = (
    'dataset="digits(limit=300)" rounds=2 local-steps=3 local-epochs=0 batch-size=16 clients=3'
    ' methods="fedavg"'
)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A FLWR_HOME and a port of the test's own; the SuperLink that `flwr run` leaves in the
    background ends with the test."""
    home = tmp_path / "flwr"
    port = free_addresses(1)[0].rpartition(":")[2]
    own = {
        "FLWR_HOME": str(home),
        "FLWR_LOCAL_CONTROL_API_PORT": port,
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
    }
    yield {**os.environ, **ENVIRONMENT, **own, "COLUMNS": "1000"}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes_with(f"FLWR_HOME={home}"):
            os.kill(process, number)
        if number == signal.SIGTERM:
            try:
                wait_until(
                    lambda: not processes_with(f"FLWR_HOME={home}"), 20, "Flower's processes end"
                )
            except AssertionError:
                continue
            return


def flwr(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["flwr", *arguments]
    where = PROJECT_FILE.parent
    return subprocess.run(
        command,
        env=environment,
        cwd=where,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def statuses(environment: dict[str, str], *arguments: str) -> list[str]:
    answer = flwr(environment, "list", *arguments, "--format", "json").stdout
    return [run["status"] for run in json.loads(answer[answer.index("{") :])["runs"]]


@pytest.mark.parametrize("secagg", ["off", "on"])
def test_flowers_own_simulation_gives_the_same_bits(
    tmp_path: Path, environment: dict[str, str], secagg: str
) -> None:
    run_in_process(tmp_path / "plain", **SETTINGS, secagg=secagg)
    federation = "num-supernodes=3 client-resources-num-cpus=1"
    out = tmp_path / "run"
    settings = f'{LINE} secagg="{secagg}" out="{out}"'
    done = flwr(
        environment,
        "run",
        ".",
        "--stream",
        "--federation-config",
        federation,
        "--run-config",
        settings,
    )
    assert read_results(out / "results.jsonl")[-1].get("status") == "finished", (
        done.stdout + done.stderr
    )
    assert_same_bits(tmp_path / "plain", out)
    assert "round 2/2: accuracy" in done.stdout
    assert "finished after round 2; final accuracy" in done.stdout
    wait_until(lambda: statuses(environment) == ["finished:completed"], 30, "the run ends")


def test_fedcog_with_flowers_own_protocol_in_flowers_own_simulation(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """The claim of the FedCOG paper, with nothing but Flower's own parts: the plain result, within
    Flower's quantisation."""
    cog = "fedcog(start=2, steps=2, samples=8)"
    run_in_process(tmp_path / "plain", **SETTINGS, methods=cog)
    federation, out = "num-supernodes=3 client-resources-num-cpus=1", tmp_path / "run"
    line = LINE.replace("fedavg", cog)
    settings = f'{line} secagg="flower" out="{out}"'
    told = ("--federation-config", federation, "--run-config", settings)
    done = flwr(environment, "run", ".", "--stream", *told)
    assert read_results(out / "results.jsonl")[-1].get("status") == "finished", (
        done.stdout + done.stderr
    )
    counted = [
        line["secagg"] for line in read_results(out / "results.jsonl") if line["kind"] == "round"
    ]
    bound = 3 * (16 / 2**22) / (counted[0]["examples"] / 1000)
    pairs = zip(weights(out), weights(tmp_path / "plain"), strict=True)
    assert max(float(np.abs(a - b).max()) for a, b in pairs) < 10 * bound < 1e-3


def test_too_few_supernodes_are_a_failed_run_though_flwr_exits_with_0(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    out = tmp_path / "run"
    done = flwr(
        environment,
        "run",
        ".",
        "--stream",
        "--run-config",
        f'{LINE} out="{out}" node-timeout=120.0',
    )
    assert done.returncode == 0  # why README.md says: look at the summary line
    summary = read_results(out / "results.jsonl")[-1]
    assert summary.get("status") == "failed", done.stdout + done.stderr
    assert "1 of 3 clients have not appeared: partition 2." in summary["reason"]
    assert f"the run failed: {summary['reason'][:40]}" in done.stdout
    assert "Traceback" not in done.stdout
    assert "Exit Code" not in done.stdout
    assert "--federation-config 'num-supernodes=3'" in summary["reason"]
    wait_until(lambda: statuses(environment) == ["finished:failed"], 30, "the run ends")


def test_a_superlink_with_supernodes_gives_the_same_bits(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run_in_process(tmp_path / "plain", **SETTINGS)
    home, logs, out = tmp_path / "flwr", tmp_path / "logs", tmp_path / "run"
    home.mkdir()
    logs.mkdir()
    with Federation(home, logs, False) as federation:
        federation.start(configure(SETTINGS), tmp_path / "memory")
        done = flwr(
            environment, "run", ".", "local", "--stream", "--run-config", f'{LINE} out="{out}"'
        )
        assert read_results(out / "results.jsonl")[-1].get("status") == "finished", (
            done.stdout + done.stderr
        )
        wait_until(
            lambda: statuses(environment, "local") == ["finished:completed"], 30, "the run ends"
        )
    assert_same_bits(tmp_path / "plain", out)
