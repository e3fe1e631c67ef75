"""Schedules in whole runs: what the clients really use, the record, resume and warm start."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.errors import ConfigurationError
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, KilledError, assert_same_bits, kill_in_round, lines, weights


def test_clients_use_the_rate_of_the_round_and_the_record_says_it(tmp_path: Path) -> None:
    """With a rate of next to nothing, round 3 leaves the model of round 2 as it is."""
    nothing = {"schedule": "step(at=3, factor=1e-30)"}
    run_in_process(tmp_path / "two", **{**SMALL, "rounds": 2})
    run_in_process(tmp_path / "three", **SMALL, **nothing)
    for before, after in zip(weights(tmp_path / "two"), weights(tmp_path / "three"), strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-7)
    assert [line["lr"] for line in lines(tmp_path / "three")] == [0.05, 0.05, 0.05 * 1e-30]


def test_the_short_form_gives_the_same_bits(tmp_path: Path) -> None:
    run_in_process(tmp_path / "short", **SMALL, lr_decay=0.7)
    run_in_process(tmp_path / "long", **SMALL, schedule="exponential(factor=0.7)")
    run_in_process(tmp_path / "none", **SMALL)
    assert_same_bits(tmp_path / "short", tmp_path / "long")
    assert weights(tmp_path / "none")[0].tobytes() != weights(tmp_path / "long")[0].tobytes()


@pytest.mark.parametrize("schedule", ["cosine(last=0.1, warmup=1)", "step(at=3, factor=0.5)"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, schedule: str) -> None:
    settings = {**SMALL, "rounds": 4, "schedule": schedule}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_a_warm_start_goes_on_with_the_rate_of_its_round(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 4, "schedule": "exponential(factor=0.5, warmup=1)"}
    run_in_process(tmp_path / "long", **settings, keep_models="all")
    run_in_process(tmp_path / "warm", **settings, warm_start=f"{tmp_path / 'long'}@2")
    assert [line["lr"] for line in lines(tmp_path / "warm")] == [0.025, 0.0125]
    assert_same_bits(tmp_path / "long", tmp_path / "warm")


def test_only_a_schedule_over_all_rounds_forbids_to_change_their_number(tmp_path: Path) -> None:
    for schedule in ("cosine", "step(at=2)"):
        run_in_process(tmp_path / schedule, **{**SMALL, "rounds": 2}, schedule=schedule)
    longer = {**SMALL, "schedule": "cosine", "resume": str(tmp_path / "cosine")}
    with pytest.raises(ConfigurationError) as refusal:
        run_in_process(tmp_path / "cosine", **longer)
    assert "rounds=3 (it was 2), over which schedule='cosine' runs" in str(refusal.value)
    other = str(tmp_path / "step(at=2)")
    run_in_process(tmp_path / "step(at=2)", **SMALL, schedule="step(at=2)", resume=other)
    assert len(lines(tmp_path / "step(at=2)")) == 3
