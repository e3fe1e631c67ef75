"""The study of FedMD-CG: features of every kind of diversity, and what finished runs say."""

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.studies.fedmd_cg import pictures, study
from fedmirage.common.data import load
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, lines


def test_diversity_spreads_the_features(tmp_path: Path) -> None:
    """Without it, the distance to real features drives the generator towards the class means."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = study.compare_kinds(load("digits(limit=300)", None), steps=100, samples=60, seed=0)
    torch.set_num_threads(threads)
    assert list(found) == ["real", "no diversity", "div0", "div1", "div2"]
    spreads = {name: one.spread for name, one in found.items()}
    assert all(spreads[kind] > 1.2 * spreads["no diversity"] for kind in ("div0", "div1", "div2"))
    assert spreads["no diversity"] < spreads["real"]
    assert all(one.values.shape == (60, 128) for one in found.values())
    shown = {name: (one.values, one.labels) for name, one in found.items()}
    pictures.draw_features(shown, tmp_path / "features.png")
    assert (tmp_path / "features.png").stat().st_size > 1000


def test_spread_is_the_variance_inside_the_classes() -> None:
    """Class 0 has 0 and 2 around 1, class 5 has one point: (1 + 1 + 0) / 3."""
    values, labels = np.array([[0.0, 7.0], [2.0, 7.0], [9.0, 9.0]]), np.array([0, 0, 5])
    assert study.Features(values, labels, 1.0).spread == pytest.approx(2 / 3)


def test_runs_are_compared_by_their_rounds_and_losses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**SMALL, "rounds": 2, "server_threads": 1, "diagnostics": True}
    folders = [tmp_path / "fedavg", tmp_path / "fedmd-cg"]
    for folder, line in zip(folders, ("fedavg", "fedmd-cg(server_steps=2)"), strict=True):
        run_in_process(folder, **settings, methods=line)
    study.runs(folders, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").stat().st_size > 1000
    assert list(study.generated_losses(lines(folders[1]))) == [1, 2]
    assert study.generated_losses(lines(folders[0])) == {}
    said = capsys.readouterr().out
    assert "1.00" in said
    assert "fedmd-cg" in said
