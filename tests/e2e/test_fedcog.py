"""What a client generates is the same wherever it runs."""

from pathlib import Path

import pytest

from tests.support.commands import SETTINGS, TINY, fedmirage
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, pictures

METHODS = "fedcog(start=1, samples=10, steps=3)"


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["simulation", "grpc"])
def test_the_same_images_everywhere(tmp_path: Path, runtime: str) -> None:
    run_in_process(tmp_path / "plain", **SETTINGS, clients=4, methods=METHODS, save_images=True)
    flags = ["--clients", "4", "--runtime", runtime, "--methods", METHODS, "--save-images"]
    done = fedmirage("run", *TINY, *flags, "--out", str(tmp_path / runtime))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_bits(tmp_path / "plain", tmp_path / runtime)
    assert (
        len(pictures(tmp_path / "plain")) == 2 * 2 * 2
    )  # rounds, clients of a round, kinds of picture
    assert pictures(tmp_path / "plain") == pictures(tmp_path / runtime)
    assert "takes its images from a global model of 0 rounds" in " ".join(done.stdout.split())
