"""The compose files for real: containers for the SuperLink and the SuperNodes, without and with TLS
and node keys.

Needs an engine, compose and the base image. Where the image gets its packages from is the
environment's business, as for anybody who builds it: TORCH_INDEX, PIP_* and BUILD_NETWORK are
passed on.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from fedmirage.common.data.loading import load
from fedmirage.common.settings.project import PROJECT_FILE
from fedmirage.runtimes import quick
from fedmirage.server.record.results import find_versions, read_results
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, difference

pytestmark = pytest.mark.slow

ROOT = PROJECT_FILE.parent
BASE = "python:3.11-slim-bookworm"
SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "rounds": 2,
    "local_steps": 3,
    "batch_size": 16,
}
LINE = 'dataset="digits(limit=300)" rounds=2 local-steps=3 batch-size=16'


def succeeds(*command: str) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def compose_command() -> list[str]:
    if not succeeds("docker", "info"):
        pytest.skip("no docker engine answers")
    found = next(
        (
            name
            for name in (["docker", "compose"], ["docker-compose"])
            if succeeds(*name, "version")
        ),
        None,
    )
    if found is None:
        pytest.skip("docker compose is not installed")
    if not succeeds("docker", "image", "inspect", BASE) and not succeeds(
        "docker", "pull", "-q", BASE
    ):
        pytest.skip(f"the base image {BASE} is not here and cannot be pulled")
    return found


class Containers:
    """One compose project of the test's own, with results under `runs`."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.folder, self.files = command, folder, [ROOT / "docker-compose.yml"]
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.project = f"fedmirage-test-{uuid4().hex[:8]}"
        self.environment = {
            **os.environ,
            "FEDMIRAGE_IMAGE": "fedmirage-test",
            "FEDMIRAGE_UID": str(os.getuid()),
            "FEDMIRAGE_GID": str(os.getgid()),
            "FEDMIRAGE_RUNS": str(self.runs),
            "FEDMIRAGE_CERTIFICATES": str(folder / "certificates"),
        }

    def __call__(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        files = [part for file in self.files for part in ("-f", str(file))]
        command = [*self.command, "-p", self.project, *files, *arguments]
        environment = {**self.environment, **variables}
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    def start(self, clients: int) -> "subprocess.CompletedProcess[str]":
        nodes = [f"supernode-{n}" for n in range(clients)]
        return self("up", "--detach", "--build", "superlink", *nodes, CLIENTS=str(clients))

    def run(self, name: str, line: str, clients: int) -> "subprocess.CompletedProcess[str]":
        started = self.start(clients)
        assert started.returncode == 0, started.stdout + started.stderr
        return self.submit(name, line, clients)

    def submit(self, name: str, line: str, clients: int) -> "subprocess.CompletedProcess[str]":
        variables = {"CLIENTS": str(clients), "RUN_NAME": name, "RUN_CONFIG": line}
        return self("run", "--rm", "-T", "submit", **variables)


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    started = Containers(compose_command(), tmp_path)
    yield started
    started("down", "--volumes", "--timeout", "5")


# A line of methods and a mode of secure aggregation. Flower's own rounds by chance, so its bits
# differ.
RUNS = [
    *((quick.line(name), "off") for name in ("fedcog", "vhl", "dynafed", "fedlgd", "fedmd-cg")),
    ("fedavg", "on"),
    ("fedavg", "flower(max_weight=60)"),
]


def test_every_method_gives_the_same_bits_in_containers(
    tmp_path: Path, containers: Containers
) -> None:
    """Each of the five methods, and both modes of secure aggregation, in one federation."""
    started = containers.start(clients=3)
    assert started.returncode == 0, started.stdout + started.stderr
    for number, (methods, secagg) in enumerate(RUNS):
        name = f"run-{number}"
        done = containers.submit(name, f'{LINE} methods="{methods}" secagg="{secagg}"', clients=3)
        logs = "" if done.returncode == 0 else containers("logs", "--no-color").stdout
        assert done.returncode == 0, methods + done.stdout + done.stderr + logs
        assert "finished after round 2" in done.stdout
        assert (containers.runs / name / "results.jsonl").stat().st_uid == os.getuid()
    assert_out_of_reach(containers)
    skip_unless_versions_agree(containers.runs / "run-0")
    for number, (methods, secagg) in enumerate(RUNS):
        out, plain = containers.runs / f"run-{number}", tmp_path / f"plain-{number}"
        mode = "off" if secagg.startswith("flower") else secagg
        run_in_process(plain, **SETTINGS, clients=3, methods=methods, secagg=mode)
        if mode == secagg:
            assert_same_bits(plain, out)
        else:
            assert 0 < difference(plain, out) < 1e-3


def skip_unless_versions_agree(run: Path) -> None:
    """Other versions of torch give other bits."""
    there = read_results(run / "results.jsonl")[0]["versions"]
    here = find_versions()
    if any(
        here[name].partition("+")[0] != there[name].partition("+")[0] for name in ("torch", "numpy")
    ):
        pytest.skip(
            f"the runs finished; their bits are not compared, since versions differ: here {here},"
            f" in the image {there}"
        )


def test_keys_and_certificates_and_data_of_a_nodes_own(
    tmp_path: Path, containers: Containers
) -> None:
    keys = tmp_path / "certificates"
    make_keys(containers, 2)
    containers.files += [ROOT / "docker-compose.tls.yml", own_data(tmp_path)]
    line = "dataset=\"npz(path='server.npz',classes=10)\" rounds=1 local-steps=3 batch-size=16"
    containers.environment["FEDMIRAGE_DATA"] = str(tmp_path / "data")
    done = containers.run("run", line, clients=2)
    assert done.returncode == 0, done.stdout + done.stderr + containers("logs", "--no-color").stdout
    (line_of_round,) = [
        line
        for line in read_results(containers.runs / "run" / "results.jsonl")
        if line["kind"] == "round"
    ]
    assert [client["examples"] for client in line_of_round["clients"]] == [70, 90]
    assert_out_of_reach(containers)

    # Node 1 is revoked while it is running, and node 2 has a key that the SuperLink does not know.
    (keys / "public" / "1.pub").unlink()
    revoked = containers("exec", "-T", "superlink", "/app/deploy/role", "admit")
    assert "client 1 is revoked, for good" in revoked.stdout, revoked.stdout + revoked.stderr
    make_keys(containers, 3)
    (keys / "public" / "2.pub").unlink()
    done = containers.run("strangers", f"{line} node-timeout=120.0", clients=3)
    assert done.returncode == 1
    reason = read_results(containers.runs / "strangers" / "results.jsonl")[-1]["reason"]
    assert "2 of 3 clients have not appeared: partition 1, 2." in reason  # node 0 was there
    for stranger in ("supernode-1", "supernode-2"):
        said = containers("logs", "--no-color", stranger).stdout
        assert "does not admit this node's key" in said
        assert "connected to the SuperLink" not in said

    # Node 1 gets a new key, and says with it that it is node 0.
    containers("rm", "--stop", "--force", "supernode-1", "supernode-2")
    (keys / "nodes" / "1").unlink()
    make_keys(containers, 2)
    admitted = containers("exec", "-T", "superlink", "/app/deploy/role", "admit")
    assert "client 1 is admitted, partition 1" in admitted.stdout, admitted.stdout + admitted.stderr
    containers("run", "--detach", "supernode-1", "supernode", "0", CLIENTS="2")
    done = containers.submit("impostor", f"{line} node-timeout=120.0", clients=2)
    assert done.returncode == 1
    reason = read_results(containers.runs / "impostor" / "results.jsonl")[-1]["reason"]
    assert "its key is bound to partition 1, but it says partition-id=0" in reason


def make_keys(containers: Containers, clients: int) -> None:
    """Make what is missing of the keys and certificates for this many clients."""
    command = [ROOT / "deploy" / "make-certificates", str(clients)]
    subprocess.run(command, env=containers.environment, check=True, capture_output=True)


def assert_out_of_reach(containers: Containers) -> None:
    """A node reaches the port for nodes, and not the one through which code is submitted."""

    def reaches(port: int) -> str:
        code = f"import socket; socket.create_connection(('superlink', {port}), 5); print('open')"
        done = containers("exec", "-T", "supernode-0", "python3", "-c", code)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    assert reaches(9092) == "open"
    assert "Connection refused" in reaches(9093)


def own_data(folder: Path) -> Path:
    """Files for the server and two nodes, and the compose file that mounts a node's own folder into
    it."""
    digits = load("digits")
    services = []
    for name, first, count in (("server", 0, 200), ("0", 200, 70), ("1", 400, 90)):
        place = folder / ("data" if name == "server" else f"own-{name}")
        place.mkdir()
        part = slice(first, first + count)
        images, labels = (
            np.asarray(digits.train.images[part]),
            np.asarray(digits.train.labels[part]),
        )
        test = {
            "test_images": np.asarray(digits.test.images),
            "test_labels": np.asarray(digits.test.labels),
        }
        np.savez(
            place / f"{'server' if name == 'server' else 'mine'}.npz",
            train_images=images,
            train_labels=labels,
            **test,
        )
        if name != "server":
            mount = (
                f"    volumes: ['{place}:/own:ro']\n    environment: {{ OWN_DATA: /own/mine.npz"
                " }\n"
            )
            services.append(f"  supernode-{name}:\n{mount}")
    overlay = folder / "own.yml"
    overlay.write_text("services:\n" + "".join(services))
    return overlay
