"""Secure aggregation between real processes: the simulation's and the in-process bits, and nodes
that are really killed."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.server.record.results import read_results
from tests.support.commands import (
    SETTINGS,
    TINY,
    fedmirage,
    kill,
    node_processes,
    processes,
    rounds_done,
    start,
    wait_until,
)
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines
from tests.support.runs import weights as shared

ALL = {**SETTINGS, "participation": 1.0, "clients": 3}
SECURE = [*TINY, "--participation", "1.0", "--secagg"]
COG = "fedcog(start=1, steps=2, samples=8)"


@pytest.mark.parametrize(
    ("methods", "runtime"),
    [
        ("fedavg", "grpc"),
        ("fedavg", "inprocess"),
        pytest.param("fedavg", "simulation", marks=pytest.mark.slow),
        pytest.param("scaffold", "grpc", marks=pytest.mark.slow),
        pytest.param(COG, "grpc", marks=pytest.mark.slow),
    ],
)
def test_the_same_bits_everywhere(tmp_path: Path, methods: str, runtime: str) -> None:
    """Keys and masks are drawn by separate processes; what they hide is what the tests' own loop
    adds up."""
    run_in_process(tmp_path / "here", **ALL, methods=methods, secagg="on")
    run_in_process(tmp_path / "plain", **ALL, methods=methods)
    folder = tmp_path / runtime
    done = fedmirage(
        "run",
        *SECURE,
        "--clients",
        "3",
        "--methods",
        methods,
        "--runtime",
        runtime,
        "--out",
        str(folder),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "secure aggregation: 3 clients x 40 bits need 42 of 53" in done.stdout
    assert_same_bits(tmp_path / "here", folder)
    difference = max(
        float(np.abs(a - b).max())
        for a, b in zip(shared(folder), shared(tmp_path / "plain"), strict=True)
    )
    assert difference < 1e-4
    assert [line["clients"] for line in lines(folder)] == [
        [{"partition": number} for number in range(3)]
    ] * 2


@pytest.mark.slow
def test_fedcog_with_flowers_own_protocol(tmp_path: Path) -> None:
    """The plain result, within Flower's quantisation."""
    run_in_process(tmp_path / "plain", **ALL, methods=COG)
    folder = tmp_path / "flower"
    more = ["--clients", "3", "--methods", COG, "--runtime", "grpc", "--out", str(folder)]
    done = fedmirage("run", *SECURE[:-1], "--secagg", "flower", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "secagg=flower trusts the server to follow the rules" in done.stdout
    examples = lines(folder)[0]["secagg"]["examples"]
    bound = 3 * (16 / 2**22) / (examples / 1000)
    pairs = zip(shared(folder), shared(tmp_path / "plain"), strict=True)
    assert max(float(np.abs(a - b).max()) for a, b in pairs) < 10 * bound < 1e-3


@pytest.mark.slow
def test_a_node_killed_while_training_is_left_out(tmp_path: Path) -> None:
    """Round 2 has lost node 1 after it got the third message; the sum of the others opens, and is
    theirs."""
    folder = tmp_path / "run"
    arguments = [
        *SECURE,
        "--clients",
        "4",
        "--rounds",
        "2",
        "--local-steps",
        "1500",
        "--round-timeout",
        "300",
    ]
    process = start("run", *arguments, "--runtime", "grpc", "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 1, 300, "one round")
    wait_until(lambda: received(folder, 1) >= 4 + 3, 120, "the third message of round 2")
    for identifier in node_processes(folder, 1, 4):
        kill(identifier)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    second = lines(folder)[1]
    assert [client["partition"] for client in second["clients"]] == [0, 2, 3]
    assert second["secagg"]["clients"] == 3
    assert [entry["partition"] for entry in second["refused"]] == [1]
    assert lines(folder, "retry") == []
    assert processes(str(folder)) == []


@pytest.mark.slow
def test_a_node_killed_earlier_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it has sent its keys, there is another try. Once another is killed, too few are left: the
    run ends with a sentence, and keeps what it has."""
    monkeypatch.setenv("FEDMIRAGE_WAITING", "flower")  # so that a stage lasts for seconds
    folder = tmp_path / "run"
    arguments = [*SECURE, "--clients", "4", "--rounds", "9", "--round-timeout", "300"]
    process = start("run", *arguments, "--runtime", "grpc", "--out", str(folder))
    wait_until(lambda: received(folder, 1) >= 4 + 1, 400, "the first message of round 2")
    for identifier in node_processes(folder, 1, 4):
        kill(identifier)
    wait_until(
        lambda: rounds_done(folder) >= 2 or process.poll() is not None,
        400,
        "round 2 without node 1",
    )
    for retry in lines(folder, "retry"):
        assert "left with 3 of 4 clients while sharing keys" in retry["reason"]
    assert len(lines(folder, "retry")) <= 1
    assert [client["partition"] for client in lines(folder)[1]["clients"]] == [0, 2, 3]
    for identifier in node_processes(folder, 2, 4):
        kill(identifier)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 1, output
    assert "2 clients are connected, and a secure sum of 4 needs at least 3" in output
    assert read_results(folder / "results.jsonl")[-1]["status"] == "failed"
    assert processes(str(folder)) == []


def received(folder: Path, node: int) -> int:
    """How many requests to train have reached a SuperNode."""
    log = folder / "logs" / f"supernode-{node}.log"
    return log.read_text(errors="replace").count("Receiving: train message") if log.exists() else 0
