"""What is wrong with an address gets a sentence, and within seconds."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from fedmirage.common.errors import ConfigurationError
from fedmirage.launch import find_cluster
from fedmirage.runtimes.cluster.join import ask_version, explain, join


class Head(gcs_service_pb2_grpc.NodeInfoGcsServiceServicer):
    """Answers as the head of a cluster does."""

    def __init__(self, version: str, token: str) -> None:
        self.version, self.token = version, token

    def CheckAlive(self, request: object, context: grpc.ServicerContext) -> object:  # noqa: N802
        told = dict(context.invocation_metadata()).get("authorization", "")
        if self.token and told != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
        return gcs_service_pb2.CheckAliveReply(ray_version=self.version)


@contextmanager
def head(version: str = "2.55.1", token: str = "") -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(1))
    service = Head(version, token)
    gcs_service_pb2_grpc.add_NodeInfoGcsServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("address", ["here", "host:0", "host:70000", "http://host:6379", ":6379"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{address}: write auto, or HOST:PORT")):
        find_cluster("auto", address)


def test_only_the_simulation_can_use_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for runtime in ("inprocess", "grpc"):
        with pytest.raises(ConfigurationError, match=f"runtime='{runtime}' has no use for it"):
            find_cluster(runtime, "auto")
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert find_cluster("auto", None) == find_cluster("simulation", None) == "head:6379"
    assert find_cluster("inprocess", None) == ""  # who set the variable may mean other programs
    assert find_cluster("auto", "") == ""
    assert find_cluster("auto", "other:1") == "other:1"


def test_an_address_that_does_not_answer() -> None:
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match="no Ray cluster answers there; check the address"):
        join("127.0.0.1:9")  # where nothing ever listens
    assert time.monotonic() - began < 8


def test_who_set_the_variable_only_reads_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    sentence = (
        r"^RAY_ADDRESS=127\.0\.0\.1:9: no Ray cluster .*; --ray-address \"\" ignores the variable$"
    )
    with pytest.raises(ConfigurationError, match=sentence):
        join("127.0.0.1:9")
    monkeypatch.setenv("RAY_ADDRESS", "here")
    with pytest.raises(ConfigurationError, match="RAY_ADDRESS=here: write auto"):
        find_cluster("auto", None)


def test_who_set_the_variable_to_auto_reads_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is put aside while Ray looks for the cluster, and whose address the user never saw."""

    def find_none(address: str) -> str:
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setenv("RAY_ADDRESS", "auto")
    finder = "ray._private.services.canonicalize_bootstrap_address_or_die"
    monkeypatch.setattr(finder, find_none)
    with pytest.raises(ConfigurationError, match=r"^RAY_ADDRESS=auto: this host belongs to no Ray"):
        join("auto")
    with head("2.40.0") as address:
        monkeypatch.setattr(finder, lambda given: address)
        with pytest.raises(ConfigurationError, match=r"^RAY_ADDRESS=auto: the cluster runs Ray"):
            join("auto")


def test_a_cluster_of_another_version_of_ray() -> None:
    match = r"runs Ray 2\.40\.0, and .* needs 2\.55\.1"
    with head("2.40.0") as address, pytest.raises(ConfigurationError, match=match):
        join(address)


def test_a_token_that_is_missing() -> None:
    match = "refuses this command's token; set RAY_AUTH"
    with head(token="secret") as address, pytest.raises(ConfigurationError, match=match):
        ask_version(address, "--ray-address a:1")


def test_what_ray_says_becomes_a_sentence() -> None:
    text = "Version mismatch: The cluster was started with:\n  Ray: 2.55.1\n  Python: 3.12.3\n"
    text += "This process on node was started with:\n  Ray: 2.55.1\n  Python: 3.11.9"
    assert "runs Python 3.12.3, and this command" in explain("a:1", text, "b")
    text = "Can't find a `node_ip_address.json` file from /tmp/ray."
    assert "this host does not belong to the cluster" in explain("a:1", text, "b")
    assert explain("a:1", "what\n now", "b") == "b: Ray did not join it: what now"
