"""A method that fails says why: a misspelt attribute, seen by whoever runs everything on one host.

tests/e2e/test_tracebacks.py does the same with Ray and gRPC.
"""

import sys
from pathlib import Path

import pytest

from tests.support.altered import METHOD, alter, assert_told
from tests.support.commands import TINY, fedmirage
from tests.support.runs import lines


def test_a_misspelt_attribute_is_shown_once_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the server's process and in a helper; a traceback of an earlier attempt is replaced."""
    change = alter(tmp_path, "client", "fedprox", "self.params.mu ", "self.params.muu ")
    monkeypatch.setenv("PYTHONPATH", change["PYTHONPATH"])
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "traceback.txt").write_text("an earlier one")
    where = ["--runtime", "inprocess", "--actors", "2", "--out", str(folder)]
    done = fedmirage("run", *METHOD, *where)
    assert_told(done.stdout + done.stderr, folder)
    assert done.returncode == 1
    assert not lines(folder, "retry")


def test_a_server_half_that_fails_is_shown_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "self.params.momentum"
    change = alter(tmp_path, "server", "fedavgm", line, f"{line}s")
    monkeypatch.setenv("PYTHONPATH", change["PYTHONPATH"])
    folder = tmp_path / "run"
    done = fedmirage("run", *TINY, "--methods", "fedavgm(momentum=0.5)", "--out", str(folder))
    assert done.returncode == 1
    assert "error: the server's code raised AttributeError: 'FedAvgM' object" in done.stderr
    assert (folder / "traceback.txt").read_text() in done.stdout
    (summary,) = lines(folder, "summary")
    assert summary["status"] == "failed"
    assert str(folder / "traceback.txt") in summary["reason"]


def test_a_breakpoint_in_a_method_talks_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice with one debugger, which has read the commands for both times at once."""
    line = "        distance ="
    change = alter(tmp_path, "client", "fedprox", line, f"        breakpoint()\n{line}")
    monkeypatch.setenv("PYTHONPATH", change["PYTHONPATH"])
    where = ["--runtime", "inprocess", "--actors", "1", "--out", str(tmp_path / "run")]
    one = ["--clients", "1", "--partition", "iid", "--rounds", "1", "--local-steps", "2"]
    done = fedmirage(
        "run",
        *METHOD,
        *one,
        *where,
        said="p tuple(step.logits.shape)\nc\np 6 * self.params.mu\nc\n",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Python 3.13 stops at the breakpoint itself, earlier ones at the line after it.
    shown = "breakpoint()" if sys.version_info >= (3, 13) else "distance = squared_distance("
    assert f"-> {shown}" in done.stdout
    assert "(Pdb) (16, 10)" in done.stdout
    assert "(Pdb) 0.6" in done.stdout
