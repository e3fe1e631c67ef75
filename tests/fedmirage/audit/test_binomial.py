"""Exact intervals, against known ends."""

import pytest

from fedmirage.audit.binomial import bound_share, reach


def test_ends_without_any_and_with_all() -> None:
    """With none of n, the upper end p has (1 - p)^n = 0.025."""
    low, high = bound_share(0, 250)
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 250))
    assert bound_share(250, 250) == pytest.approx((1 - high, 1))


def test_known_interval() -> None:
    """Of the textbooks: 10 of 100 give 4.9005 % to 17.6223 %."""
    assert bound_share(10, 100) == pytest.approx((0.049005, 0.176223), abs=1e-6)


def test_reaching() -> None:
    assert reach(2, 3, 0.5) == pytest.approx(0.5)
    assert reach(0, 3, 0.5) == pytest.approx(1)
    assert reach(1, 10, 0.0) == 0
