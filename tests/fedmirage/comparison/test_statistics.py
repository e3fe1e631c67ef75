"""Differences are paired over seeds, and nothing is claimed that a test does not show."""

import math

import pytest
from scipy import stats

from fedmirage.comparison.statistics import (
    EQUIVALENT,
    ERROR,
    Difference,
    holm,
    judge_together,
    paired_difference,
    spread,
)

# Extra hours of sleep with two drugs (Student, 1908).
SLEEP = (
    (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0),
    (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4),
)


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    """Differences 1, 2, 3: mean 2, deviation 1, t(0.975, 2) = 4.303, margin 4.303 / sqrt 3."""
    one, other = {0: 11.0, 1: 22.0, 2: 33.0}, {0: 10.0, 1: 20.0, 2: 30.0}
    found = paired_difference(one, other)
    assert found is not None
    assert found.mean == 2
    assert found.margin == pytest.approx(4.302653 / 3**0.5)
    low, high = stats.ttest_rel(list(one.values()), list(other.values())).confidence_interval(0.95)
    assert (found.mean - found.margin, found.mean + found.margin) == pytest.approx((low, high))
    assert found.verdict == "undecided"  # -0.48 to 4.48 has zero inside


@pytest.mark.parametrize(("sign", "verdict"), [(1, "ahead"), (-1, "behind")])
def test_a_verdict_needs_an_interval_without_zero(sign: int, verdict: str) -> None:
    found = paired_difference({0: sign * 5.0, 1: sign * 5.1, 2: sign * 4.9}, {0: 0, 1: 0, 2: 0})
    assert found is not None
    assert found.verdict == verdict


def test_one_seed_claims_nothing_and_unpaired_seeds_do_not_count() -> None:
    found = paired_difference({0: 90.0, 1: 80.0}, {0: 10.0, 2: 0.0})
    assert found is not None
    assert (found.mean, found.margin, found.pairs, found.verdict) == (80.0, None, 1, "undecided")
    assert (found.smallest_visible, found.seeds_missing) == (None, None)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_equal_runs_are_equivalent() -> None:
    found = paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})
    assert found is not None
    assert (found.margin, found.verdict) == (0.0, EQUIVALENT)
    constant = paired_difference({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5})
    assert constant is not None
    assert constant.verdict == "ahead"


def take(values: list[float]) -> Difference:
    found = paired_difference(dict(enumerate(values)), dict.fromkeys(range(len(values)), 0.0))
    assert found is not None
    return found


def test_both_tests_on_published_data() -> None:
    """For Student's sleep data, t is -4.062 and p 0.00283; with a margin of half an hour, the
    larger p of the two one-sided tests is 0.989 (R's t.test, and the example of its TOSTER)."""
    one, other = ({seed: 0.03 * hours for seed, hours in enumerate(drug)} for drug in SLEEP)
    found = paired_difference(one, other)
    assert found is not None
    assert found.p_different == pytest.approx(0.002833, abs=1e-6)
    assert found.p_equivalent == pytest.approx(0.989, abs=5e-4)
    assert found.verdict == "behind"


def test_equivalence_is_that_of_two_one_sided_tests() -> None:
    values = [0.004, -0.006, 0.001, 0.003, -0.002, 0.005]
    below = stats.ttest_1samp(values, 0.015, alternative="less").pvalue
    above = stats.ttest_1samp(values, -0.015, alternative="greater").pvalue
    found = take(values)
    assert found.p_equivalent == pytest.approx(max(below, above))
    assert found.verdict == EQUIVALENT
    assert take([20 * value for value in values]).verdict == "undecided"


def test_holms_correction_on_a_published_example() -> None:
    """0.005 and 0.01 pass 0.05 / 4 and 0.05 / 3; 0.03 fails 0.05 / 2, and 0.04 fails with it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])


def test_several_comparisons_at_once_claim_less() -> None:
    weak, single, strong = take([0.02, 0.03, 0.05]), take([0.5]), take([0.5, 0.51, 0.5])
    assert weak.p_different is not None
    assert ERROR / 2 < weak.p_different < 2 * ERROR  # 0.068
    nearly = take([0.02, 0.03, 0.04])
    assert nearly.verdict == "ahead"
    alone, without, sure = judge_together([nearly, single, strong])
    assert (alone.verdict, without, sure.verdict) == ("ahead", single, "ahead")
    first, second = judge_together([nearly, weak])
    assert (first.verdict, second.verdict, first.share) == ("undecided", "undecided", 2)


def test_power_is_where_a_difference_of_this_spread_becomes_visible() -> None:
    """Shifted just beyond the smallest visible difference, the same values are a lead."""
    values = [-0.01, 0.02, -0.01]
    found = take(values)
    visible = found.smallest_visible
    assert visible == pytest.approx(found.margin)
    assert take([value + 1.001 * visible for value in values]).verdict == "ahead"
    assert take([value + 0.999 * visible for value in values]).verdict == "undecided"


@pytest.mark.parametrize("mean", [0.0, 0.004, 0.012, 0.04])
def test_seeds_that_are_missing_settle_it_and_one_less_does_not(mean: float) -> None:
    """Values with exactly this mean and deviation, as many as are asked for and one less."""
    found = make(mean, 0.02, 3)
    assert found.verdict == "undecided"
    assert found.seeds_missing is not None
    enough = 3 + found.seeds_missing
    assert make(mean, 0.02, enough).verdict == ("ahead" if mean > 0.01 else EQUIVALENT)
    assert make(mean, 0.02, enough - 1).verdict == "undecided"


def make(mean: float, deviation: float, count: int) -> Difference:
    """Take a difference whose mean and deviation are given, however many pairs there are."""
    line = [index - (count - 1) / 2 for index in range(count)]
    scale = deviation / math.sqrt(sum(one * one for one in line) / (count - 1))
    return take([mean + scale * one for one in line])


def test_one_value_has_no_spread() -> None:
    one = spread([3.0])
    assert one is not None
    assert (one.mean, one.deviation) == (3.0, None)
    assert spread([]) is None
