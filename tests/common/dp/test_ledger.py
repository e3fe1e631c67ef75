"""The ledger: on the disk before anything leaves, only added to, and never read half."""

import json
import os
import stat
from pathlib import Path

import pytest

from fedmirage.common.dp.accounting import compose_gaussians
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.errors import FedmirageError


def test_entries_are_on_the_disk_when_add_returns(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "releases.jsonl"
    Ledger(path).add(round=1, drawn=2)
    Ledger(path).add(round=2, drawn=2)
    assert [json.loads(line)["round"] for line in path.read_text().splitlines()] == [1, 2]
    assert Ledger(path).entries == [{"round": 1, "drawn": 2}, {"round": 2, "drawn": 2}]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_half_a_line_is_left_behind(tmp_path: Path) -> None:
    """A kill in the middle of a write leaves it, and nothing had been released for it yet."""
    path = tmp_path / "releases.jsonl"
    Ledger(path).add(round=1)
    with path.open("a") as file:
        file.write('{"round": 2, "dra')
    ledger = Ledger(path)
    ledger.add(round=2)
    assert Ledger(path).entries == ledger.entries == [{"round": 1}, {"round": 2}]


@pytest.mark.parametrize("damage", ["null", "[1]", "\x00\x00", "}"])
def test_damage_is_not_taken_for_nothing(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "releases.jsonl"
    path.write_text(f'{{"round": 1}}\n{damage}\n')
    with pytest.raises(FedmirageError, match="line 2 of the privacy ledger"):
        Ledger(path)


def test_without_a_path_it_counts_all_the_same() -> None:
    ledger = Ledger(None)
    ledger.add(round=1)
    assert ledger.entries == [{"round": 1}]


def test_gaussians_add_up() -> None:
    """Multipliers 3 and 4 are one of 1 / sqrt(1/9 + 1/16) = 2.4; none spend nothing."""
    assert compose_gaussians([3, 4], 1e-5) == pytest.approx(compose_gaussians([2.4], 1e-5))
    assert compose_gaussians([1], 1e-5) == pytest.approx(4.377, abs=1e-3)
    assert compose_gaussians([], 1e-5) == 0
    assert compose_gaussians([1, 0], 1e-5) == float("inf")
