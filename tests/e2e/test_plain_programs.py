"""Flower's own programs, started by the commands that ours print, with TLS and keys."""

import os
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from fedmirage.common.settings.project import ROOT
from fedmirage.deployment.link import Home, control, find_link
from fedmirage.deployment.program import Program
from fedmirage.deployment.sites import Admitted, make_key
from fedmirage.runtimes.grpc import ENVIRONMENT, free_addresses
from fedmirage.runtimes.processes import Processes, environment
from fedmirage.runtimes.superlink import PROGRAMS
from fedmirage.server.record.results import read_results
from fedmirage.show.words import write_command
from tests.support.commands import wait_until
from tests.support.inprocess import run_in_process
from tests.support.nodes import read_way
from tests.support.runs import assert_same_bits

pytestmark = pytest.mark.slow
LINE = 'dataset="digits(limit=300)" rounds=2 local-steps=2 batch-size=16 clients=2 local-epochs=0'
SETTINGS = {
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 2,
    "batch_size": 16,
    "clients": 2,
}


def test_flowers_programs_alone(tmp_path: Path) -> None:
    runtime, fleet, orders, *tasks = free_addresses(5)
    home = Home(tmp_path / "federation")
    program = Program(home, home.certificates, (), False, fleet, orders, runtime)
    program.prepare()
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    variables = {**environment(), **ENVIRONMENT, "PATH": path}
    logs = tmp_path / "log"

    with Processes(f"FEDMIRAGE_TEST={uuid4().hex}") as processes, logs.open("wb") as log:

        def start(text: str, **more: str) -> None:
            processes.spawn(["sh", "-c", text], {**variables, **more}, stdout=log, stderr=log)

        start(write_command(program.variables, ["flower-superlink", *program.for_flower]))
        wait_until(lambda: b"Starting Fleet API" in logs.read_bytes(), 120, "a SuperLink")
        keys = [make_key(tmp_path / name) for name in ("site-a", "site-b")]
        with control(find_link(str(home.folder))) as asked:
            Admitted(asked, home.nodes).admit([public for _, public in keys])
        for partition, (private, _) in enumerate(keys):
            node = f'partition-id={partition} memory="{tmp_path}/memory-{partition}"'
            way = read_way(
                *("--superlink", fleet, "--node-config", node, "--name", private.name),
                *("--root-certificates", str(home.certificates / "ca.crt")),
                *("--auth-supernode-private-key", str(private)),
                *("--clientappio-api-address", tasks[partition]),
            )
            flower = str(tmp_path / f"flwr-{partition}")
            start(write_command({}, ["flower-supernode", *way.for_flower]), FLWR_HOME=flower)
        out = tmp_path / "run"
        submitted = subprocess.run(
            ["flwr", "run", ".", "here", "--run-config", f'{LINE} out="{out}"', "--stream"],
            cwd=ROOT,
            env={**variables, "FLWR_HOME": str(home.flower)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    lines = read_results(out / "results.jsonl")
    assert lines[-1]["status"] == "finished", logs.read_text()
    assert next(line for line in lines if line["kind"] == "round")["sites"] == {
        "0": "site-a",
        "1": "site-b",
    }
    run_in_process(tmp_path / "plain", **SETTINGS)
    assert_same_bits(tmp_path / "plain", out)
