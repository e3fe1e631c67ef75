"""Draws for generators of features: exactly as many as asked for, from the given distribution."""

import numpy as np
import torch

from fedmirage.common.models.generators import draw_labels, draw_noise


def test_labels_follow_p_and_there_are_exactly_as_many_as_asked_for() -> None:
    shares = np.array([0.5, 0.0, 0.2, 0.3])
    labels = draw_labels(shares, 20_000, torch.Generator().manual_seed(0))
    assert len(labels) == 20_000
    np.testing.assert_allclose(labels.bincount(minlength=4) / 20_000, shares, atol=0.01)
    assert (labels != 1).all()


def test_rounded_shares_still_give_a_full_batch() -> None:
    """Where shares do not quite add up to 1, a search in cumulative sums would miss labels."""
    labels = draw_labels(np.full(10, 0.1) * 0.999, 64, torch.Generator().manual_seed(0))
    assert len(labels) == 64


def test_noise_is_standard_normal_or_uniform() -> None:
    """In the squared difference of two draws, 2 against 1/6: weights of pairs differ by 12."""
    for kind, spread in (("normal", 2.0), ("uniform", 1 / 6)):
        one, other = (
            draw_noise(kind, 4000, 8, torch.Generator().manual_seed(seed)) for seed in (1, 2)
        )
        assert one.shape == (4000, 8)
        assert abs(float((one - other).square().mean()) - spread) < 0.03 * spread
