"""What clients remember between rounds is the same in every runtime: control variates, gradient
estimates, previous models, parts that never leave them."""

from pathlib import Path

import pytest

from tests.support.commands import SETTINGS, TINY, fedmirage
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, some_client_returned, without_times

METHODS = "scaffold, moon(mu=1.0), feddyn"
PARTS = "fedmd-cg(server_steps=2)"  # extractors, generators and the moments of their optimisers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "methods"),
    [
        ("simulation", METHODS),
        ("grpc", METHODS),
        ("grpc", PARTS),
    ],
)
def test_client_state_survives_rounds_and_absence(
    tmp_path: Path, runtime: str, methods: str
) -> None:
    """Half of the clients per round, four rounds: some return after a round without them."""
    run_in_process(tmp_path / "plain", **{**SETTINGS, "rounds": 4}, clients=4, methods=methods)
    more = ("--clients", "4", "--rounds", "4", "--methods", methods, "--runtime", runtime)
    done = fedmirage("run", *TINY, *more, "--out", str(tmp_path / runtime))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_bits(tmp_path / "plain", tmp_path / runtime)
    assert without_times(tmp_path / "plain") == without_times(tmp_path / runtime)
    assert some_client_returned(tmp_path / runtime)
