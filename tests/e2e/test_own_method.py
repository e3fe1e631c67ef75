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
    """A federation in which some nodes have another package, or none."""

    package: Path
    others: dict[str, Path]  # by the name of a node; a folder may be empty

    def spawn(self, name: str, *command: str) -> None:
        known = self.environment
        if other := self.others.get(name):
            paths = {key: known[key].split(os.pathsep) for key in ("PYTHONPATH", VARIABLE)}
            self.environment = known | {
                key: os.pathsep.join(
                    str(other) if path == str(self.package) else path for path in found
                )
                for key, found in paths.items()
            }
        super().spawn(name, *command)
        self.environment = known


def test_nodes_that_have_it_train_and_the_others_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node lacks the package, and one has another version of it."""
    package, logs = install_skeleton("grpc-prior", tmp_path / "package"), tmp_path / "logs"
    newer, none = install_skeleton("grpc-prior", tmp_path / "newer"), tmp_path / "none"
    with (newer / "fedmirage_grpc_prior" / "client.py").open("a") as half:
        half.write("# a later version\n")
    for folder in (logs, none):
        folder.mkdir()
    monkeypatch.syspath_prepend(package)
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [known, str(package)])))
    with UnlikeNodes(tmp_path, logs, False) as federation:
        federation.package = package
        federation.others = {"supernode-2": none, "supernode-3": newer}
        federation.start(configure(SETTINGS | {"clients": 4}), tmp_path / "memory")
        refused = tmp_path / "refused"
        run_id = federation.submit(configure(SETTINGS | {"clients": 4, "out": str(refused)}))
        reason = federation.wait(run_id, refused)["reason"]
        assert "2 of 4 nodes were refused, so no node serves partition 2, 3" in reason
        assert "this node has no method called 'grpc-prior'; its owner installs" in reason
        assert "this node's fedmirage_grpc_prior has other source than the server's" in reason
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
