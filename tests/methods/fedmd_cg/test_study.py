"""The study of FedMD-CG: features of every kind of diversity."""

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.studies import fedmd_cg as study
from fedmirage.common.data.loading import load


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
    study.draw_features(found, tmp_path / "features.png")
    assert (tmp_path / "features.png").stat().st_size > 1000


def test_spread_is_the_variance_inside_the_classes() -> None:
    """Class 0 has 0 and 2 around 1, class 5 has one point: (1 + 1 + 0) / 3."""
    values, labels = np.array([[0.0, 7.0], [2.0, 7.0], [9.0, 9.0]]), np.array([0, 0, 5])
    assert study.Features(values, labels, 1.0).spread == pytest.approx(2 / 3)
