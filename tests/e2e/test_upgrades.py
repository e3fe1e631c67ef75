"""Sites upgrade one at a time: a node of another release refuses, and a run goes on without it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.common.settings.project import ROOT
from fedmirage.runtimes.grpc import Federation, free_addresses
from fedmirage.server.record.results import read_results
from tests.support.commands import wait_until

pytestmark = pytest.mark.slow
SETTINGS = {
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 2,
    "batch_size": 16,
    "min_replies": 2,
}


def install_other_release(folder: Path) -> None:
    """Copy this release, as one whose version and one module differ."""
    for name in ("common", "client", "server", "fedmirage"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    project = (ROOT / "pyproject.toml").read_text()
    version = next(line for line in project.splitlines() if line.startswith("version = "))
    (folder / "pyproject.toml").write_text(project.replace(version, 'version = "9.9.9"', 1))
    with (folder / "client" / "train.py").open("a") as module:
        module.write("\n# of another release\n")


def test_a_run_goes_on_without_a_node_of_another_release(tmp_path: Path) -> None:
    other, home, logs = tmp_path / "other", tmp_path / "flwr", tmp_path / "logs"
    for folder in (other, home, logs):
        folder.mkdir()
    install_other_release(other)
    with Federation(home, logs, False) as federation:
        two = configure({**SETTINGS, "clients": 2, "out": str(tmp_path / "run")})
        federation.start(two, tmp_path / "memory")
        path = {"PYTHONPATH": str(other)}
        federation.environment |= path
        (tasks,) = free_addresses(1)
        node = ["--node-config", f'partition-id=2 memory="{tmp_path}/memory-2"']
        words = [sys.executable, "-P", "-m", "fedmirage.entry", "supernode", "--insecure"]
        words += ["--superlink", federation.fleet, *node]
        words += ["--name", "site-c", "--clientappio-api-address", tasks]
        federation.spawn("supernode-2", *words)
        log = logs / "supernode-2.log"
        wait_until(lambda: "connected" in log.read_text(), 120, "the node of another release")
        assert "fedmirage 9.9.9" in log.read_text()
        federation.environment |= {"PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
        config = configure({**two.flat(), "clients": 3})
        run_id = federation.submit(config)
        summary = federation.wait(run_id, tmp_path / "run")
    assert summary["status"] == "finished", summary
    rounds = [
        line for line in read_results(tmp_path / "run" / "results.jsonl") if line["kind"] == "round"
    ]
    assert [[one["partition"] for one in line["clients"]] for line in rounds] == [[0, 1], [0, 1]]
    (note,) = summary["notes"]
    assert "takes no part until it is of the same release" in note
    assert (
        "this node runs its own code only, fedmirage 9.9.9, and the run brought fedmirage" in note
    )
    assert "it differs in client/train.py" in note
