"""Faults that are really injected, into real processes: interrupted, killed, lost."""

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.runtimes.grpc import Federation
from fedmirage.server.record.results import read_results
from tests.support.commands import (
    SETTINGS,
    TINY,
    fedmirage,
    heed_signals,
    kill,
    node_processes,
    processes,
    rounds_done,
    start,
    wait_until,
)
from tests.support.hanging import hang_once
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines

pytestmark = pytest.mark.slow


# Enough for a fault in the middle; on one host, a round takes only a moment.
ROUNDS = {"inprocess": 80, "simulation": 80, "grpc": 12}


def long(runtime: str) -> list[str]:
    return [*TINY, "--rounds", str(ROUNDS[runtime]), "--clients", "3", "--runtime", runtime]


def assert_resumes_to_the_same_bits(folder: Path, runtime: str, whole: Path) -> None:
    done = fedmirage("run", "--resume", str(folder), "--runtime", runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = ROUNDS[runtime]
    run_in_process(whole, **{**SETTINGS, "rounds": rounds}, clients=3)
    assert_same_bits(whole, folder)
    assert [line["round"] for line in lines(folder)] == list(range(1, rounds + 1))
    assert [line["status"] for line in lines(folder, "summary")] == ["finished"]


@pytest.mark.parametrize(
    ("runtime", "number"),
    [("inprocess", signal.SIGHUP), ("simulation", signal.SIGINT), ("grpc", signal.SIGTERM)],
)
def test_an_interrupted_run_leaves_nothing_behind_and_resumes_to_the_same_bits(
    tmp_path: Path, runtime: str, number: signal.Signals
) -> None:
    folder = tmp_path / "cut"
    process = start("run", *long(runtime), "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 2, 240, "two rounds")
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "--resume" in output.splitlines()[-1]
    assert processes(str(folder)) == []
    assert read_results(folder / "results.jsonl")[-1]["status"] == "interrupted"
    assert len(lines(folder, "summary")) == 1
    assert_resumes_to_the_same_bits(folder, runtime, tmp_path / "whole")


def listens(process: "subprocess.Popen[str]") -> bool:
    """Whether a command has begun to take signals for interrupts."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << signal.SIGHUP - 1)


@pytest.mark.parametrize("runtime", ["inprocess", "simulation", "grpc"])
def test_an_interrupt_during_start_up_lets_the_same_command_start_again(
    tmp_path: Path, runtime: str
) -> None:
    """At moments that fall into imports, checks, Ray's or Flower's start, and right behind the
    first line of results, which comes sooner on a fast machine."""
    folder = tmp_path / "run"
    command = ["run", *TINY, "--clients", "3", "--runtime", runtime, "--out", str(folder)]
    numbers = itertools.cycle([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    for moment in (0.0, 0.5, 1.5, 3.0, 5.0, 240.0):
        (folder / "results.jsonl").unlink(missing_ok=True)
        process = start(*command)
        wait_until(lambda: listens(process), 60, "Python starts")  # noqa: B023 - called at once
        deadline = time.monotonic() + moment
        while time.monotonic() < deadline and not (folder / "results.jsonl").exists():
            time.sleep(0.01)
        process.send_signal(next(numbers))
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130, (moment, output)
        assert "the same command starts it again" in output.splitlines()[-1], (moment, output)
        assert "Traceback" not in output, (moment, output)
        assert processes(str(folder)) == []
        assert len(lines(folder, "summary")) <= 1
    done = fedmirage(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line["status"] for line in lines(folder, "summary")] == ["finished"]


@pytest.mark.parametrize("runtime", ["inprocess", "simulation", "grpc"])
def test_nothing_outlives_a_killed_command_and_its_run_resumes(
    tmp_path: Path, runtime: str
) -> None:
    folder = tmp_path / "cut"
    process = start("run", *long(runtime), "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 2, 240, "two rounds")
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: processes(str(folder)) == [], 30, "everything ends with the command")
    assert list(folder.glob(".flower-*")) == []
    assert lines(folder, "summary") == []
    assert_resumes_to_the_same_bits(folder, runtime, tmp_path / "whole")


def test_a_second_writer_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start("run", *long("grpc"), "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 1, 240, "one round")
    (writer,) = {int((folder / ".lock").read_text())} & set(processes(f"FLWR_HOME={folder}"))
    done = fedmirage("run", "--resume", str(folder))
    assert done.returncode == 1
    assert f"process {writer} is writing into {folder}" in done.stderr
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert [line["status"] for line in lines(folder, "summary")] == ["finished"]


NOTEBOOK = """
import os, signal, sys, threading, time
import fedmirage
from tests.support.commands import rounds_done
from pathlib import Path

def interrupt():
    while rounds_done(Path(sys.argv[1])) < 2:
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
settings = {"dataset": "digits(limit=300)", "clients": 3, "local_steps": 3, "batch_size": 16}
try:
    fedmirage.run(**settings, rounds=300, out=sys.argv[1])
except KeyboardInterrupt:
    print("the kernel lives")
"""


def test_an_interrupt_does_not_end_a_notebook(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NOTEBOOK, str(tmp_path / "run")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=heed_signals,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "the kernel lives"
    assert read_results(tmp_path / "run" / "results.jsonl")[-1]["status"] == "interrupted"
    assert processes(str(tmp_path / "run")) == []


def test_a_lost_node_is_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = [
        *TINY,
        "--rounds",
        "8",
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


def test_a_hanging_client_costs_an_actor_and_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    for name, value in hang_once(tmp_path, helper=True).items():
        monkeypatch.setenv(name, value)
    arguments = [*long("simulation"), "--rounds", "4", "--participation", "1.0"]
    done = fedmirage("run", *arguments, "--round-timeout", "20", "--out", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "hangs").exists()
    first, *_, last = lines(folder)
    assert {entry["reason"] for entry in first["refused"]} == {
        "no answer within 20 s (round-timeout)"
    }
    assert len(last["clients"]) == 3


def test_a_node_goes_on_if_the_process_that_takes_its_tasks_is_killed(tmp_path: Path) -> None:
    """It is started anew, and says so; at most one round does without its client.

    A round is nearly all training, so that a task is under way when the process is killed.
    """
    settings = {**SETTINGS, "clients": 3, "participation": 1.0, "rounds": 200, "local_steps": 1000}
    folder, logs = tmp_path / "run", tmp_path / "logs"
    logs.mkdir()
    with Federation(tmp_path, logs, verbose=False) as federation:
        federation.start(configure(settings), tmp_path / "memory")
        federation.submit(configure(settings | {"out": str(folder), "round_timeout": 60.0}))
        wait_until(lambda: rounds_done(folder) >= 1, 240, "one round")
        time.sleep(15)  # who ends sooner than this is not replaced
        node = federation.processes["supernode-1"]
        listed = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
        (taker,) = {int(number) for number in listed} & {*processes("fedmirage.node.tasks")}
        before = rounds_done(folder)
        kill(taker)

        def is_back() -> bool:
            return any(len(line["clients"]) == 3 for line in lines(folder)[before + 2 :])

        wait_until(is_back, 240, "the client takes part again")
        assert node.poll() is None
    said = "".join(path.read_text() for path in logs.iterdir())
    assert "ended with code -9; another one is started" in said


def test_a_lost_superlink_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start("run", *long("grpc"), "--out", str(folder))
    wait_until(lambda: rounds_done(folder) >= 1, 240, "one round")
    (link,) = [number for number in processes(f"FLWR_HOME={folder}") if str(number) in superlinks()]
    kill(link)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    assert "the superlink ended with code -9" in output
    assert processes(str(folder)) == []
    assert read_results(folder / "results.jsonl")[0]["kind"] == "config"


def superlinks() -> list[str]:
    """Processes whose program is a SuperLink, anybody's on this machine."""
    found = subprocess.run(
        ["pgrep", "-f", "bin/flower-superlink --insecure"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()
