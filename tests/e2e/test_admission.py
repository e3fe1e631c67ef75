"""A node and a SuperLink with TLS and registered keys: every refusal is a sentence."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from fedmirage.common.settings.project import ROOT
from fedmirage.runtimes.grpc import ENVIRONMENT, free_addresses
from fedmirage.runtimes.processes import Processes, environment
from fedmirage.runtimes.superlink import PROGRAMS, SuperLink
from tests.support.commands import command, wait_until

pytestmark = pytest.mark.slow
PATIENCE = 120.0  # seconds; an idle machine needs ten


class Keys:
    """A SuperLink that admits registered nodes only."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        path = f"{PROGRAMS}:{os.environ['PATH']}"
        self.variables = {**environment(), **ENVIRONMENT, "FLWR_HOME": str(folder), "PATH": path}
        self.certificates = folder / "certificates"
        made = {**self.variables, "FEDMIRAGE_CERTIFICATES": str(self.certificates)}
        subprocess.run([ROOT / "deploy" / "make-certificates", "1"], env=made, check=True)
        runtime, self.fleet, control = free_addresses(3)
        words = ["--serverappio-api-address", runtime, "--fleet-api-address", self.fleet]
        words += ["--control-api-address", control, "--enable-supernode-auth"]
        for option, name in (("ca-cert", "ca.crt"), ("cert", "server.crt"), ("key", "server.key")):
            words += [f"--ssl-{option}file", str(self.certificates / name)]
        self.start("superlink", [str(PROGRAMS / "flower-superlink"), *words])
        link = {"address": control, "root-certificates": str(self.certificates / "ca.crt")}
        (folder / "config.toml").write_text(tomli_w.dumps({"superlink": {"tls": link}}))
        self.link = SuperLink("tls", self.variables, "")
        wait_until(lambda: "Starting Fleet API" in self.said("superlink"), PATIENCE, "a SuperLink")

    def start(self, name: str, words: list[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("wb") as log:
            return self.processes.spawn(words, self.variables, stdout=log, stderr=log)

    def node(self, name: str, *more: str) -> "subprocess.Popen[bytes]":
        words = ["supernode", "--superlink", self.fleet, "--node-config", "partition-id=0"]
        words += ["--root-certificates", str(self.certificates / "ca.crt")]
        (tasks,) = free_addresses(1)
        return self.start(name, command(*words, "--clientappio-api-address", tasks, *more))

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    with Processes(f"FLWR_HOME={tmp_path}") as processes:
        yield Keys(tmp_path, processes)


def test_a_node_says_why_it_is_turned_away(keys: Keys) -> None:
    assert keys.node("keyless").wait(PATIENCE) == 1
    assert "write --auth-supernode-private-key FILE" in keys.said("keyless")
    key = keys.certificates / "nodes" / "0"
    own = ("--auth-supernode-private-key", str(key))
    assert keys.node("stranger", *own).wait(PATIENCE) == 1
    assert f"does not admit this node's key ({key})" in keys.said("stranger")

    public = str(keys.certificates / "public" / "0.pub")
    identity = str(keys.link.flwr("supernode", "register", public, "tls")["node-id"])
    node = keys.node("admitted", *own)
    wait_until(lambda: "connected to the SuperLink" in keys.said("admitted"), PATIENCE, "a node")
    keys.link.flwr("supernode", "unregister", identity, "tls")
    assert node.wait(PATIENCE) == 1
    assert f"has revoked this node's key ({key}), so the node ends" in keys.said("admitted")
    assert keys.node("revoked", *own).wait(PATIENCE) == 1
    assert "if it was revoked, make another" in keys.said("revoked")
    for name in ("keyless", "stranger", "admitted", "revoked"):
        assert "Traceback" not in keys.said(name)
        assert len(keys.said(name).splitlines()) <= 5
