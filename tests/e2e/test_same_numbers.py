"""One seed, four places: the test's own process, the inprocess runtime, Ray, and gRPC with separate
processes give the same bits."""

from pathlib import Path

import pytest

from fedmirage.server.record.results import read_results
from tests.support.commands import SETTINGS, TINY, fedmirage, processes
from tests.support.inprocess import run_in_process
from tests.support.runs import (
    assert_same_bits,
    pictures,
    some_client_returned,
    without_times,
)

DRAWN = "draw(per_client=30)"  # which each process draws by itself
METHODS = "scaffold, moon(mu=1.0), feddyn, fedcog(start=1, samples=10, steps=3)"


@pytest.mark.parametrize(
    ("runtime", "tasks", "wire"),
    [
        ("inprocess", "forked", "float32"),
        ("simulation", "forked", "bfloat16"),
        ("grpc", "forked", "float16"),
        pytest.param("grpc", "fresh", "float32", marks=pytest.mark.slow),
    ],
)
def test_the_same_bits_everywhere(
    tmp_path: Path, runtime: str, tasks: str, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models, what clients remember (some return after a round without them), and pictures."""
    monkeypatch.setenv("FEDMIRAGE_TASKS", tasks)  # of SuperNodes
    more = {"clients": 4, "rounds": 4, "methods": METHODS, "save_images": True, "wire": wire}
    run_in_process(tmp_path / "plain", **{**SETTINGS, **more, "partition": DRAWN})
    flags = ("--clients", "4", "--rounds", "4", "--methods", METHODS, "--save-images")
    flags += ("--partition", DRAWN, "--wire", wire)
    done = fedmirage("run", *TINY, *flags, "--runtime", runtime, "--out", str(tmp_path / runtime))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_bits(tmp_path / "plain", tmp_path / runtime)
    assert without_times(tmp_path / "plain") == without_times(tmp_path / runtime)
    assert some_client_returned(tmp_path / runtime)
    assert len(pictures(tmp_path / "plain")) == 4 * 2 * 2  # rounds, their clients, kinds of picture
    assert pictures(tmp_path / "plain") == pictures(tmp_path / runtime)
    assert "final accuracy" in done.stdout
    assert "round 4/4" in done.stdout
    assert processes(str(tmp_path / runtime)) == []


def test_a_failed_run_has_its_sentence_and_exit_code(tmp_path: Path) -> None:
    done = fedmirage(
        "run",
        *TINY,
        "--clients",
        "2",
        "--lr",
        "1e30",
        "--retries",
        "0",
        "--out",
        str(tmp_path / "run"),
    )
    assert done.returncode == 1
    assert "training diverged in round 1" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert read_results(tmp_path / "run" / "results.jsonl")[-1]["status"] == "failed"
