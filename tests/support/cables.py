"""Network namespaces with an address each, and cables to this host that can be pulled."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedmirage.runtimes import grpc


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


@contextmanager
def lay_cables(count: int) -> Iterator[None]:
    """Make a namespace per node, and a cable from each to this host."""
    try:
        for node in range(count):
            ip("netns", "add", f"fm{node}")
            ip("link", "add", f"fm{node}", "type", "veth", "peer", "fm", "netns", f"fm{node}")
            ip("address", "add", f"10.77.{node}.1/30", "dev", f"fm{node}")
            ip("-n", f"fm{node}", "address", "add", f"10.77.{node}.2/30", "dev", "fm")
            ip("-n", f"fm{node}", "link", "set", "lo", "up")
            ip("-n", f"fm{node}", "link", "set", "fm", "up")
            ip("link", "set", f"fm{node}", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(
            f"network namespaces cannot be made here; root can do it with iproute2: {error}"
        )
    try:
        yield
    finally:
        for node in range(count):
            ip("netns", "delete", f"fm{node}")


def pull(node: int) -> None:
    """Cut a node off."""
    ip("link", "set", f"fm{node}", "down")


def plug_in(node: int) -> None:
    """Connect it again."""
    ip("link", "set", f"fm{node}", "up")


class Spread(grpc.Federation):
    """A federation whose nodes are in the namespaces, and talk to the SuperLink by cable."""

    def spawn(self, name: str, *command: str) -> None:
        port = self.fleet.rpartition(":")[2]
        node = name.removeprefix("supernode-")
        host = "0.0.0.0" if name == "superlink" else f"10.77.{node}.1"
        words = [word if word != self.fleet else f"{host}:{port}" for word in command]
        inside = [] if name == "superlink" else ["ip", "netns", "exec", f"fm{node}"]
        super().spawn(name, *inside, *words)
