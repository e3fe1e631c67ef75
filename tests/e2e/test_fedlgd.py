"""What clients distil and what the server learns are the same wherever they run."""

from pathlib import Path

import pytest

from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.commands import SETTINGS, TINY, fedmirage
from tests.support.fedlgd import fedlgd
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines

METHODS = fedlgd(gap=1, min_participants=3)


def test_the_same_images_over_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second round refreshes the local images, and matches the global ones once more.

    With a cache of its own, the second run distils anew what the first one has distilled.
    """
    settings = {**SETTINGS, "participation": 1.0, "clients": 3, "methods": METHODS}
    run_in_process(tmp_path / "plain", **settings)
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    flags = ["--clients", "3", "--participation", "1", "--methods", METHODS]
    done = fedmirage("run", *TINY, *flags, "--runtime", "grpc", "--out", str(tmp_path / "grpc"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_bits(tmp_path / "plain", tmp_path / "grpc")
    ours, theirs = (
        read_checkpoint(tmp_path / name / "checkpoint.safetensors").strategy["fedlgd.images"]
        for name in ("plain", "grpc")
    )
    assert [array.tobytes() for array in ours] == [array.tobytes() for array in theirs]
    assert "fedlgd.refresh_loss" in lines(tmp_path / "grpc")[1]["methods"]
