"""Differences are paired over seeds, and nothing is claimed that an interval does not show."""

import pytest
from scipy import stats

from fedmirage.comparison.statistics import paired_difference, spread


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    """Differences 1, 2, 3: mean 2, deviation 1, t(0.975, 2) = 4.303, margin 4.303 / sqrt 3."""
    one, other = {0: 11.0, 1: 22.0, 2: 33.0}, {0: 10.0, 1: 20.0, 2: 30.0}
    found = paired_difference(one, other)
    assert found is not None
    assert found.mean == 2
    assert found.margin == pytest.approx(4.302653 / 3**0.5)
    low, high = stats.ttest_rel(list(one.values()), list(other.values())).confidence_interval(0.95)
    assert (found.mean - found.margin, found.mean + found.margin) == pytest.approx((low, high))
    assert found.verdict == ""  # -0.48 to 4.48 has zero inside


@pytest.mark.parametrize(("sign", "verdict"), [(1, "better"), (-1, "worse")])
def test_a_verdict_needs_an_interval_without_zero(sign: int, verdict: str) -> None:
    found = paired_difference({0: sign * 5.0, 1: sign * 5.1, 2: sign * 4.9}, {0: 0, 1: 0, 2: 0})
    assert found is not None
    assert found.verdict == verdict


def test_one_seed_claims_nothing_and_unpaired_seeds_do_not_count() -> None:
    found = paired_difference({0: 90.0, 1: 80.0}, {0: 10.0, 2: 0.0})
    assert found is not None
    assert (found.mean, found.margin, found.pairs, found.verdict) == (80.0, None, 1, "")
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_equal_runs_are_not_told_apart() -> None:
    found = paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})
    assert found is not None
    assert (found.margin, found.verdict) == (0.0, "")


def test_one_value_has_no_spread() -> None:
    one = spread([3.0])
    assert one is not None
    assert (one.mean, one.deviation) == (3.0, None)
    assert spread([]) is None
