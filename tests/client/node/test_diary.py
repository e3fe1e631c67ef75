"""A node's own log has a line per run and one per round."""

import logging
from pathlib import Path

import pytest

from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL


def test_a_line_per_run_and_one_per_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fedmirage"):
        run_in_process(tmp_path, **{**SMALL, "rounds": 2, "clients": 1, "methods": "fedprox(mu=1)"})
    run, *rounds = [line.getMessage() for line in caplog.records if line.name == "fedmirage"]
    assert run.startswith("run: fedprox(mu=1), 2 rounds, secagg off, dp off; this node trains on ")
    assert "samples of digits(limit=300), classes 0, 1" in run
    assert len(rounds) == 2
    assert rounds[0].startswith("round 1 of 2: ")
    assert "task loss " in rounds[0]
    assert "proximal loss " in rounds[0]
