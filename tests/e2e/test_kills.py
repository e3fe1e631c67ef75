"""Processes of a run that are killed at random: any of them, in every runtime and mode."""

import random
from pathlib import Path

import pytest

from tests.support.commands import kill
from tests.support.trials import MODES, Trial, find_kinds, trials, wait_for

pytestmark = pytest.mark.slow

RUNTIMES = ["inprocess"] * 4 + ["simulation"] * 3 + ["grpc"] * 3  # of ten trials


@pytest.mark.parametrize("seed", trials(100, few=10))
def test_a_killed_process_ends_no_run_for_good(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    trial = Trial(tmp_path / "run", RUNTIMES[seed % 10], MODES[(seed + seed // 10) % 3])
    moment = trial.draw_moment(rng)
    process = trial.start()
    victim = "nobody"
    if wait_for(process, moment) and (kinds := find_kinds(trial.folder)):
        # Every run has these two, and they would be drawn nearly always.
        inner = sorted(kinds.keys() - {"command", "guardian"})
        victim = rng.choice(inner if inner and seed % 4 else sorted(kinds))
        kill(rng.choice(kinds[victim]))
    ended = trial.settle(process)
    if victim == "nobody":
        pytest.skip(f"nothing was killed: the run took less than {moment:.0f} s")
    print(f"{seed} {trial.runtime} {trial.secagg} {moment:.1f} s, {victim} killed: {ended}")
