"""Runs in real processes: side by side, continued after an interruption, failures shown."""

import io
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedmirage.common.settings.config import configure
from fedmirage.comparison import runs
from fedmirage.comparison.plan import Job, Plan, make_plan
from fedmirage.comparison.progress import Board
from fedmirage.comparison.runs import Means, Work, carry_out, share_cores
from fedmirage.runtimes.processes import Processes
from tests.support.commands import TINY, fedmirage, processes, rounds_done, start, wait_until
from tests.support.runs import SMALL, lines

FEDCOG = "fedcog(start=2, samples=4, steps=1)"


def plan(tmp_path: Path, *methods: str, seeds: str = "0", **settings: Any) -> Plan:
    layers = [{**SMALL, "out": str(tmp_path), **settings}]
    return make_plan(layers, methods, seeds, controls=False, tune=0, schedules=[], share=True)


def test_a_comparison_runs_once_shares_rounds_and_ends_with_the_table(tmp_path: Path) -> None:
    """A second call finds everything finished."""
    arguments = ("compare", *TINY, "--methods", FEDCOG, "--out", str(tmp_path))
    done = fedmirage(*arguments)
    assert done.returncode == 0, done.stderr
    assert "3/3 runs: " in done.stdout
    assert "placebo of fedcog" in done.stdout
    assert f"results: {tmp_path}\n" in done.stdout
    *_, page, advice = done.stdout.splitlines()
    assert page == f"page: {tmp_path / 'report.html'}"
    assert advice.startswith("next: fedmirage compare --methods")
    (tmp_path / "report.html").unlink()
    (folder,) = tmp_path.glob("fedcog-*-steps-1-seed0")
    assert [line["round"] for line in lines(folder)] == [2]  # the first is FedAvg's
    written = {path: path.read_text() for path in tmp_path.glob("*/results.jsonl")}
    again = fedmirage(*arguments, "--no-report")
    assert not (tmp_path / "report.html").exists()
    assert "3 of 3 runs were finished before" in again.stdout
    assert written == {path: path.read_text() for path in tmp_path.glob("*/results.jsonl")}


def test_the_longest_run_goes_first_with_what_waits_for_it(tmp_path: Path) -> None:
    """FedCOG takes over rounds of FedAvg, so FedAvg counts as long as both of them."""
    jobs = [*plan(tmp_path, FEDCOG, "fedprox", "fedsam", seeds="0,1").runs({})]
    work = Work(jobs, Means("inprocess", 1, 1), Processes("A=b"), Console(quiet=True))
    fedavg, fedcog, fedprox, fedsam = (job.row for job in jobs[:4])
    work.took = {fedavg: 1.0, fedcog: 3.0, fedprox: 2.0, fedsam: 5.0}
    first = [work.take() for _ in range(5)]
    assert [job and (job.row, job.config.seed) for job in first] == [
        (fedsam, 0),
        (fedsam, 1),
        (fedavg, 0),
        (fedavg, 1),
        (fedprox, 0),
    ]


def test_an_interrupt_ends_all_processes_and_the_same_command_continues(tmp_path: Path) -> None:
    more = ("--dataset", "digits(limit=300)", "--rounds", "400", "--local-steps", "3")
    arguments = ("compare", *more, "--methods", "fedprox", "--no-report", "--out", str(tmp_path))
    child = start(*arguments)
    folders = [tmp_path / "fedavg-seed0", tmp_path / "fedprox-seed0"]
    wait_until(lambda: any(rounds_done(folder) > 2 for folder in folders), 200, "rounds")
    child.send_signal(signal.SIGINT)
    text, _ = child.communicate(timeout=100)
    assert child.returncode == 130
    assert "interrupted with 0 of 2 runs finished" in text
    assert "interrupted before" not in text
    assert processes(f":{tmp_path}") == []
    kept = {folder: rounds_done(folder) for folder in folders if rounds_done(folder)}
    assert kept
    few = str(max(kept.values()) + 1)  # how far a run goes may change
    done = fedmirage(*arguments, "--rounds", few)
    assert done.returncode == 0, done.stderr
    for folder in folders:
        assert [line["round"] for line in lines(folder)] == list(range(1, int(few) + 1))


def test_what_does_not_fit_the_data_is_refused_before_anything_runs(tmp_path: Path) -> None:
    lines_given = ("--methods", "vhl(virtual_classes=3)", "--methods", "vhl(virtual_classes=4)")
    done = fedmirage("compare", *TINY, *lines_given, "--no-controls", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "virtual_classes=3" in done.stderr
    assert "virtual_classes=4" in done.stderr
    assert not list(tmp_path.glob("*/results.jsonl"))


def test_a_run_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedCOG, which would take over FedAvg's rounds, does all rounds itself if FedAvg fails."""
    begun: list[tuple[str, str]] = []

    def attend(processes: Processes, request: dict[str, Any], *_: Any) -> None:
        config = request["config"]
        begun.append((config["methods"], config["warm-start"]))
        if config["methods"] == "fedavg":
            raise OSError("the disk is full")

    monkeypatch.setattr(runs, "attend", attend)
    planned = plan(tmp_path, FEDCOG, "fedprox")
    jobs = planned.runs({})
    failed = carry_out(jobs, Means("inprocess", 2, 1), tmp_path, Console(quiet=True))
    assert failed == {jobs[0].folder: "the disk is full"}
    assert sorted(begun) == [("fedavg", ""), (FEDCOG, ""), ("fedprox", "")]


def test_a_damaged_record_is_left_out_of_the_work(tmp_path: Path) -> None:
    planned = plan(tmp_path, "fedprox")
    fedavg, fedprox = planned.runs({})
    fedavg.folder.mkdir()
    (fedavg.folder / "results.jsonl").write_bytes(b"\xff\n")
    work = Work(planned.runs({}), Means("inprocess", 1, 1), Processes("A=b"), Console(quiet=True))
    assert work.waiting == [fedprox]
    assert "is not UTF-8" in work.failed[fedavg.folder]


def test_cores_are_shared_among_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmirage.common.device.cores", lambda: 8)
    config = configure({"device": "cpu"})
    assert share_cores(config, "auto", 0, 20, False) == Means("inprocess", 8, 1)
    assert share_cores(config, "auto", 0, 2, False) == Means("inprocess", 2, 4)
    assert share_cores(config, "auto", 4, 20, False) == Means("inprocess", 2, 4)
    assert share_cores(config, "grpc", 0, 20, False) == Means("grpc", 1, 0)
    two_threads = configure({"device": "cpu", "threads": 2})
    assert share_cores(two_threads, "inprocess", 0, 20, False).at_once == 4


def test_the_time_left_counts_what_other_rows_cost(tmp_path: Path) -> None:
    """Rounds of FedAvg took 2 s, and FedProx, whose cost nobody knows, is taken to be like them."""
    jobs: list[Job] = plan(tmp_path, "fedprox", rounds=5).runs({})
    board = Board(jobs, [], {}, 2, Console(file=io.StringIO()))
    assert board.left() is None
    board.tracks[0].round, board.tracks[0].cost = 3, 2.0
    assert board.left() == (2 * 2.0 + 5 * 2.0) / 2
    board.tracks[0].finished = True
    assert board.left() == 5 * 2.0 / 2
    failing = Board(jobs, [], {jobs[1].folder: "no"}, 1, Console(file=io.StringIO()))
    failing.tracks[0].cost = 2.0
    assert failing.left() == 5 * 2.0


def test_estimates_are_corrected_by_what_the_first_rounds_take(tmp_path: Path) -> None:
    """FedAvg took 6 s a round, estimated at 2 s, so FedProx, estimated at 3 s, may take 9 s."""
    jobs: list[Job] = plan(tmp_path, "fedprox", rounds=5).runs({})
    console = Console(file=io.StringIO(), width=200)
    estimates = {jobs[0].folder: 10.0, jobs[1].folder: 15.0}
    board = Board(jobs, [], {}, 1, console, estimates)
    assert board.left() == 25.0
    board.tracks[0].round, board.tracks[0].cost, board.tracks[0].finished = 5, 6.0, True
    assert board.left() == 5 * 9.0
    for _ in range(2):
        board.correct()
    told = "the first rounds take 3.0 times as long as estimated for an idle machine; 45 s left\n"
    assert console.file.getvalue() == told  # type: ignore[attr-defined]


def test_without_a_terminal_there_is_a_line_per_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("fedmirage.comparison.progress.time.monotonic", lambda: now[0])
    jobs: list[Job] = plan(tmp_path, "fedprox", rounds=5).runs({})
    console = Console(file=io.StringIO(), width=200)
    board = Board(jobs, jobs[:1], {}, 1, console)
    for second in range(0, 125, 5):
        now[0] = float(second)
        board.look()
    line = "0/2 runs · time left unknown · fedavg 0/5\n"
    assert console.file.getvalue() == 2 * line  # type: ignore[attr-defined]
