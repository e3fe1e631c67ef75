"""Faults that are really injected, into real processes: interrupted, killed, lost."""

import signal
import subprocess
from pathlib import Path

import pytest

from server.record.results import read
from tests.e2e.test_same_numbers import SETTINGS
from tests.support.commands import TINY, fedmirage, kill, processes, start, wait_until
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines

pytestmark = pytest.mark.slow
LONG = [*TINY, "--rounds", "6", "--clients", "3"]


def rounds_done(folder: Path) -> int:
    return len(lines(folder)) if (folder / "results.jsonl").exists() else 0


@pytest.mark.parametrize(
    ("runtime", "number"), [("simulation", signal.SIGINT), ("grpc", signal.SIGTERM)]
)
def test_an_interrupted_run_leaves_nothing_behind_and_resumes_to_the_same_bits(
    tmp_path: Path, runtime: str, number: signal.Signals
) -> None:
    folder = tmp_path / "cut"
    process = start("run", *LONG, "--runtime", runtime, "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 2, 240, "two rounds")
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "--resume" in output
    assert processes(str(folder)) == []
    done = fedmirage("run", "--resume", str(folder), "--runtime", runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    run_in_process(tmp_path / "whole", **{**SETTINGS, "rounds": 6}, clients=3)
    assert_same_bits(tmp_path / "whole", folder)
    assert [line["round"] for line in lines(folder)] == [1, 2, 3, 4, 5, 6]
    assert [line["status"] for line in lines(folder, "summary")] == ["finished"]


def test_a_killed_simulation_keeps_its_history_and_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    process = start("run", *LONG, "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 2, 240, "two rounds")
    process.kill()
    process.communicate(timeout=60)
    assert rounds_done(folder) >= 2
    assert fedmirage("run", "--resume", str(folder)).returncode == 0
    run_in_process(tmp_path / "whole", **{**SETTINGS, "rounds": 6}, clients=3)
    assert_same_bits(tmp_path / "whole", folder)


def test_a_lost_node_is_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = [
        *TINY,
        "--rounds",
        "4",
        "--clients",
        "3",
        "--participation",
        "1.0",
        "--round-timeout",
        "180",
    ]
    process = start("run", *arguments, "--runtime", "grpc", "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 1, 240, "one round")
    for identifier in node_processes(folder, 1):
        kill(identifier)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    last = lines(folder)[-1]
    assert [client["partition"] for client in last["clients"]] == [0, 2]
    refused = [entry for line in lines(folder) for entry in line["refused"]]
    assert {entry["partition"] for entry in refused} <= {1}


def node_processes(folder: Path, partition: int, clients: int = 3) -> list[int]:
    """A SuperNode and whatever it has started."""
    (node,) = processes(
        f'partition-id={partition} num-partitions={clients} memory="{folder}/memory"'
    )
    children = subprocess.run(
        ["pgrep", "-s", str(node)], capture_output=True, text=True, check=False
    ).stdout.split()
    return [node, *(int(child) for child in children if int(child) != node)]


def test_a_lost_superlink_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start("run", *LONG, "--runtime", "grpc", "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 1, 240, "one round")
    (link,) = [number for number in processes(f"FLWR_HOME={folder}") if str(number) in superlinks()]
    kill(link)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    assert "the superlink ended with code -9" in output
    assert processes(str(folder)) == []
    assert read(folder / "results.jsonl")[0]["kind"] == "config"


def superlinks() -> list[str]:
    """Processes whose program is a SuperLink, anybody's on this machine."""
    found = subprocess.run(
        ["pgrep", "-f", "bin/flower-superlink --insecure"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()
