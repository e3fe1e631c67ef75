"""The study: distances before and after distillation, what everything costs, maps by domain."""

from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.studies.fedlgd.cost import measure
from experiments.studies.fedlgd.distances import (
    cut_to_equal,
    maximum_mean_discrepancy,
    sliced_wasserstein,
)
from experiments.studies.fedlgd.study import show, study
from experiments.studies.tsne import draw_domains
from fedmirage.common.errors import FedmirageError
from fedmirage.common.models.factory import build
from fedmirage.report.tsne.finished import FinishedRun, domain_cloud
from tests.support.fedlgd import BASE, fedlgd
from tests.support.inprocess import run_in_process


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_distances_know_near_from_far() -> None:
    """Sets of one distribution are near; shifting one of them by 1 along all 9 axes moves its
    shadow on a random direction by E|sum of the direction's entries|, about 0.8."""
    one, other = noise(200, 9), noise(200, 9, seed=1)
    for measure_of in (maximum_mean_discrepancy, sliced_wasserstein):
        assert measure_of(one, one) == pytest.approx(0, abs=1e-3)
        assert measure_of(one, other) < 0.3 * measure_of(one, other + 1)
    assert sliced_wasserstein(one, one + 1) == pytest.approx(0.8, abs=0.1)


def test_sets_are_cut_to_the_same_number() -> None:
    one, other = cut_to_equal(noise(5, 3), noise(3, 3), seed=0)
    assert len(one) == len(other) == 3
    assert len(torch.unique(one, dim=0)) == 3


def test_what_an_image_costs() -> None:
    """One linear layer from 4 pixels to 3 hidden nodes, then 2 outputs; 2 operations per weight.

    Features take 2 * 12. Training takes forward 2 * (12 + 6), backward to the weights as much
    again, and backward to the hidden nodes 2 * 6.
    """
    model = build("mlp(hidden=3, layers=1)", (1, 2, 2), 2).eval()
    found = measure(model, (1, 2, 2), 2)
    assert found.real == 24
    assert found.virtual == 24 + 24
    assert found.training == 36 + 36 + 12
    assert found.matching > found.training


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which every client has one domain."""
    folder = tmp_path_factory.mktemp("run")
    data = {"dataset": "digits-domains(size=8, limit=200)", "partition": "domains", "clients": 5}
    run_in_process(folder, **{**BASE, **data, "rounds": 4}, methods=fedlgd())
    return folder


def test_a_study_of_a_run(run: Path) -> None:
    figures = study(run)
    pairs, growth = figures["distances"]["pairs"], figures["distances"]["growth"]
    assert len(pairs) == 10
    assert (pairs[0]["one"], pairs[0]["other"]) == ("0: plain", "1: inverted")
    assert pairs[0]["real"]["mmd"] > 0
    assert set(growth) == {"initial", "last"}
    assert "growth of the distance, last virtual images for real ones: mmd" in show(figures)
    costs = figures["operations"]
    in_table = costs["client as table 6 counts, whole run"]
    assert costs["client with what it leaves out, whole run"] > in_table > 0
    assert costs["server, whole run"] == 2 * 3 * costs["server, per step on its images"]


def test_a_map_by_domain(run: Path, tmp_path: Path) -> None:
    opened = FinishedRun.open(run)
    assert opened.virtual is not None
    assert opened.virtual[0].shape == (10, 3, 8, 8)
    cloud = domain_cloud(opened, samples=25, seed=0)
    assert np.bincount(cloud.owner).tolist() == [5] * 5
    draw_domains([opened], samples=25, seed=0, path=tmp_path / "tsne.png")
    assert (tmp_path / "tsne.png").stat().st_size > 0


def test_a_run_of_another_method_is_refused(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**BASE, "rounds": 1})
    with pytest.raises(FedmirageError, match="give the folder of a run with fedlgd"):
        study(tmp_path)
    with pytest.raises(FedmirageError, match="which has no domains"):
        domain_cloud(FinishedRun.open(tmp_path), samples=10, seed=0)
