"""Own methods as real processes: a package that one of three nodes has not, and a file."""

import os
from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.own_code import VARIABLE
from fedmirage.common.settings.config import configure, key_of
from fedmirage.runtimes.grpc import Federation
from tests.support.commands import fedmirage
from tests.support.inprocess import run_in_process
from tests.support.plugins import install_skeleton, write_method
from tests.support.runs import assert_same_bits

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "methods": "grpc-prior(strength=1.0)",
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 2,
    "batch_size": 16,
}


class UnlikeNodes(Federation):
    """A federation whose last node does not find the package."""

    package: Path

    def spawn(self, name: str, *command: str) -> None:
        known = self.environment
        if name == "supernode-2":
            self.environment = {**known, "PYTHONPATH": leave_out(self.package, known["PYTHONPATH"])}
            self.environment[VARIABLE] = leave_out(self.package, known[VARIABLE])
        super().spawn(name, *command)
        self.environment = known


def leave_out(folder: Path, path: str) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry != str(folder))


def test_nodes_that_have_it_train_and_the_other_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, logs = install_skeleton("grpc-prior", tmp_path / "package"), tmp_path / "logs"
    logs.mkdir()
    monkeypatch.syspath_prepend(package)
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [known, str(package)])))
    with UnlikeNodes(tmp_path, logs, False) as federation:
        federation.package = package
        federation.start(configure(SETTINGS | {"clients": 3}), tmp_path / "memory")
        refused = tmp_path / "refused"
        run_id = federation.submit(configure(SETTINGS | {"clients": 3, "out": str(refused)}))
        reason = federation.wait(run_id, refused)["reason"]
        assert "1 of 3 nodes were refused, so no node serves partition 2" in reason
        assert "this node has no method called 'grpc-prior'; its owner installs" in reason
        run = tmp_path / "run"
        run_id = federation.submit(configure(SETTINGS | {"clients": 2, "out": str(run)}))
        assert federation.wait(run_id, run)["status"] == "finished"
    run_in_process(tmp_path / "plain", **SETTINGS, clients=2)
    assert_same_bits(tmp_path / "plain", run)


@pytest.mark.parametrize("runtime", ["simulation", "grpc"])
def test_a_file_gives_the_same_bits_in_every_runtime(tmp_path: Path, runtime: str) -> None:
    file = write_method(tmp_path / "pull.py")
    settings = {**SETTINGS, "methods": f"{file}(mu=0.1)", "clients": 2}
    words = [word for key, value in settings.items() for word in (f"--{key_of(key)}", str(value))]
    done = fedmirage("run", *words, "--runtime", runtime, "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    run_in_process(tmp_path / "plain", **settings)
    assert_same_bits(tmp_path / "plain", tmp_path / "run")
