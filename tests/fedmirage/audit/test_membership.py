"""Membership: the scores by hand, a model that learned by heart, and one that has not."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedmirage.audit.attacks_on_outcomes import Membership
from fedmirage.audit.halves import draw_halves, read_halves
from fedmirage.audit.membership import compute_ratios, scale_confidences
from fedmirage.common.settings.config import configure
from tests.support.audits import TINY, attack_run


def test_confidence_is_the_logit_of_the_true_class() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.0, 3.0, 3.0]], dtype=torch.double)
    labels = torch.tensor([0, 2])
    shares = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    found = scale_confidences(logits, labels)
    torch.testing.assert_close(found, (shares / (1 - shares)).log())


def test_a_certain_model_has_a_finite_confidence() -> None:
    logits = torch.tensor([[800.0, 0.0], [-800.0, 0.0]], dtype=torch.double)
    assert scale_confidences(logits, torch.tensor([0, 0])).tolist() == [800.0, -800.0]


def test_ratio_by_hand() -> None:
    """Shadow models 0 and 1 have trained on the sample and say 4 and 6; 2 and 3 say 1 and 3.

    So the means are 5 and 2, and both deviations sqrt(2): the squares 1 + 1 over one degree of
    freedom. At 5, the logarithms are 0 and -(3^2 / 2) / 2 = -2.25, without what they share.
    """
    inside = torch.tensor([[True], [True], [False], [False]])
    shadows = torch.tensor([[4.0], [6.0], [1.0], [3.0]])
    found = compute_ratios(torch.tensor([5.0]), shadows, inside)
    torch.testing.assert_close(found, torch.tensor([2.25]))
    assert float(compute_ratios(torch.tensor([3.5]), shadows, inside)) == pytest.approx(0, abs=1e-6)


def test_shadow_models_that_agree_divide_by_no_zero() -> None:
    inside = torch.tensor([[True], [False]])
    found = compute_ratios(torch.tensor([1.0]), torch.tensor([[1.0], [1.0]]), inside)
    assert found.isfinite().all()


def test_pairs_of_halves_hold_every_sample_once_in_and_once_out() -> None:
    whole = [np.arange(7), np.arange(7, 20)]
    half = draw_halves(whole, 3, "x")
    assert [len(part) for part in half.trained] == [3, 6]
    assert (half.inside ^ half.swapped.inside).all()
    assert np.array_equal(half.pool, np.arange(20))
    again = half.draw_again(3, "y")
    assert np.array_equal(again.pool, half.pool)
    assert not np.array_equal(again.inside, half.inside)
    assert np.array_equal(half.of([1]).pool, np.arange(7, 20))


def save_noise(folder: Path) -> str:
    """Save pictures of noise with labels that nothing but memory can know."""
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        f"{split}_{name}": values
        for split, count in (("train", 500), ("test", 60))
        for name, values in (
            ("images", random.integers(0, 256, (count, 8, 8), dtype=np.uint8)),
            ("labels", random.integers(0, 4, count)),
        )
    }
    np.savez(folder / "noise.npz", **arrays)
    return f"npz(path={str(folder / 'noise.npz')!r})"


def test_what_was_learned_by_heart_is_found(tmp_path: Path) -> None:
    """The strength of both attacks: on a model that is right about members alone."""
    settings = {"dataset": save_noise(tmp_path), "model": "mlp(hidden=128, layers=1)"}
    training = {"rounds": 4, "local_epochs": 10, "lr": 0.1, "momentum": 0.9}
    found = attack_run(Membership(shadows=4), tmp_path / "run", **settings, **training)
    numbers = found.numbers
    assert numbers["accuracy"]["members"] > 0.9
    assert numbers["accuracy"]["others"] < 0.5
    assert numbers["loss"]["auc"] > 0.8
    assert numbers["ratio"]["auc"] > 0.8
    assert numbers["ratio"]["found_at_0.01"] > 0.1
    assert "members can be told from others" in found.says[0]


def test_what_was_hardly_learned_is_not_found(tmp_path: Path) -> None:
    found = attack_run(Membership(shadows=2), tmp_path / "run")
    numbers = found.numbers
    assert (numbers["members"], numbers["others"], numbers["shadows"]) == (204, 206, 2)
    for attack in ("loss", "ratio"):
        assert abs(numbers[attack]["auc"] - 0.5) < 2 * numbers[attack]["margin"]
        assert numbers[attack]["found_at_0.001"] is None  # 206 others have no such share
        assert all(math.isfinite(one) for point in numbers[attack]["curve"] for one in point)
    assert (tmp_path / "run/audit/roc.png").stat().st_size > 0


def test_the_run_trains_on_one_half_and_reads_back_which(tmp_path: Path) -> None:
    from fedmirage.common.data.loading import load
    from fedmirage.common.data.partitions.named import divide

    config = Membership().arrange(configure(TINY, {"out": str(tmp_path)}))
    data = load(config.dataset)
    halves = read_halves(config, data)
    given = divide(config, data)
    assert all(map(np.array_equal, given, halves.trained))
    assert not np.intersect1d(np.concatenate(given), np.concatenate(halves.held_out)).size
    assert len(halves.pool) == len(data.train)
