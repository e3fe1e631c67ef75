"""Disks that are full at a random moment: of the run, of a node's memory, or of its notes."""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.trials import MODES, Trial, trials, wait_for

pytestmark = pytest.mark.slow

RUNTIMES = ["inprocess", "inprocess", "simulation", "grpc"]
PLACES = ["", "memory", "memory/secagg"]  # in the folder of a run
SIZE = 16 * 2**20


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a small disk at a folder."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here; root can do it")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, spare: int) -> Path:
    """Fill a disk but for so many bytes."""
    filler = disk / "filler"
    free = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_bsize - spare))
    return filler


@pytest.mark.parametrize("seed", trials(20, few=4))
def test_a_run_resumes_when_space_is_freed(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    secagg = MODES[(seed + seed // 3) % 3]
    place = PLACES[seed % 3] if secagg == "on" else PLACES[seed % 2]
    trial = Trial(tmp_path / "run", RUNTIMES[seed % 4], secagg)
    moment, spare = trial.draw_moment(rng), rng.choice([0, 4096, 100_000, 300_000])
    with small_disk(trial.folder / place):
        process = trial.start()
        filler = None
        if wait_for(process, moment):
            filler = fill(trial.folder / place, spare)
        ended = trial.settle(process, lambda: filler and filler.unlink())
        if filler is None:
            pytest.skip(f"no disk was filled: the run took less than {moment:.0f} s")
        print(
            f"{seed} {trial.runtime} {secagg} {moment:.1f} s, {spare} bytes left"
            f" in {place or 'the folder'}: {ended}"
        )
