"""A Ray cluster of several nodes on this machine, as a lab would start it, and what runs on it."""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedmirage.runtimes.guardian import end_all
from tests.support.commands import wide

RAY = str(Path(sys.executable).parent / "ray")
KINDS = ("fedmirage-actor-", "fedmirage-run-")  # of folders
STORE = 100_000_000  # bytes of each node's object store
# What runs on a cluster, by asking it: its actors that are alive, and its nodes.
ASK = """
import json, logging, ray
from ray._private.state import actors
ray.init(address="{address}", logging_level=logging.CRITICAL, log_to_driver=False)
alive = [one["ActorClassName"] for one in actors().values() if one["State"] != "DEAD"]
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
print(json.dumps({{"actors": alive, "nodes": nodes, "free": ray.available_resources()}}))
"""


class Cluster:
    """Its nodes are processes with a mark each, by which one can be ended like a host."""

    def __init__(self, folder: str) -> None:
        self.folder, self.address = folder, ""
        self.token = secrets.token_hex(32)
        self.nodes: list[str] = []  # their marks

    @property
    def environment(self) -> dict[str, str]:
        """The variables of whoever may use the cluster."""
        return {**wide(), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def add(self, cpus: int, gpus: int = 0, variables: Mapping[str, str] | None = None) -> str:
        """Start a node; the first is the head. Return its mark."""
        mark = f"FEDMIRAGE_NODE={secrets.token_hex(8)}"
        name, _, value = mark.partition("=")
        command = [RAY, "start", "--num-cpus", str(cpus), "--num-gpus", str(gpus)]
        command += ["--object-store-memory", str(STORE), "--disable-usage-stats"]
        if self.address:
            command += ["--address", self.address]
        else:
            port, clients = free_port(), free_port()
            command += ["--head", "--port", str(port), "--ray-client-server-port", str(clients)]
            command += ["--include-dashboard", "false", "--temp-dir", self.folder]
            self.address = f"{own_address()}:{port}"
        self.nodes.append(mark)
        known = {**self.environment, name: value, "RAY_TMPDIR": self.folder, **(variables or {})}
        known["RAY_worker_niceness"] = "0"  # 15 would stop the test where other tests run
        done = subprocess.run(
            command, env=known, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return mark

    def kill(self, mark: str) -> None:
        """Kill a node with everything that runs on it, as if its power were cut."""
        self.nodes.remove(mark)
        end_all(mark)

    def ask(self) -> dict[str, list[str]]:
        """Say what runs on it."""
        script = ASK.format(address=self.address)
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def start_cluster(*cpus: int, gpus: int = 0) -> Iterator[Cluster]:
    """Start a cluster with a node for each number of CPUs; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(
        prefix="ray", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        cluster = Cluster(folder)  # Ray's sockets need a short path
        try:
            for count in cpus:
                cluster.add(count, gpus)
            yield cluster
        finally:
            for mark in reversed(cluster.nodes):
                end_all(mark)


def own_address() -> str:
    """Return the address by which Ray knows this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect(("8.8.8.8", 80))  # sends nothing; the system chooses an interface
        except OSError:
            return "127.0.0.1"
        return str(found.getsockname()[0])


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def actor_folders() -> set[str]:
    """List the folders of actors on this machine."""
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith(KINDS)}
