"""The budget against the analytic formula, against a bound from below, and in its limits."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from fedmirage.server.strategy.budget import epsilon, metrics, spent

DELTA = 1e-5
WHOLE = (1, 1)


def delta_of(sigma: float, eps: float) -> float:
    """Balle and Wang 2018, theorem 8: the exact delta of one Gaussian release."""
    return float(
        stats.norm.cdf(1 / (2 * sigma) - eps * sigma)
        - np.exp(eps) * stats.norm.cdf(-1 / (2 * sigma) - eps * sigma)
    )


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 4.0])
def test_one_release_by_hand(multiplier: float) -> None:
    """The reported epsilon has exactly the requested delta; multiplier 1 and delta 1e-5 give
    4.377."""
    found = epsilon(multiplier, {WHOLE: 1}, DELTA)
    assert delta_of(multiplier, found) == pytest.approx(DELTA, rel=1e-6)
    if multiplier == 1:
        assert found == pytest.approx(4.377, abs=1e-3)


def test_releases_add_up_as_gaussians_do() -> None:
    """Nine releases with multiplier 3 are one with multiplier 1, whatever the number of clients."""
    assert epsilon(3.0, {(4, 4): 5, (3, 3): 4}, DELTA) == pytest.approx(
        epsilon(1.0, {WHOLE: 1}, DELTA)
    )


@pytest.mark.parametrize(("multiplier", "drawn"), [(0.5, 10), (1.0, 1), (2.0, 30), (1.0, 90)])
def test_a_draw_says_less_but_not_less_than_it_does(multiplier: float, drawn: int) -> None:
    """A bound from below: one client's number is -1/2 or 1/2 (sensitivity 1), the others' are 0.

    A draw of k of 100 clients includes that client or not, so the outcome is a mixture of two
    Gaussians. Its delta for a given epsilon is the integral of max(0, p - e^epsilon p').
    """
    share, grid = drawn / 100, np.linspace(-40, 40, 400_001)

    def density(mean: float) -> np.ndarray:
        return share * stats.norm.pdf(grid, mean, multiplier) + (1 - share) * stats.norm.pdf(
            grid, 0, multiplier
        )

    def surplus(eps: float) -> float:
        return (
            float(
                integrate.trapezoid(np.maximum(0, density(0.5) - np.exp(eps) * density(-0.5)), grid)
            )
            - DELTA
        )

    least = optimize.brentq(surplus, 0, 50)
    found = epsilon(multiplier, {(drawn, 100): 1}, DELTA)
    assert least <= found <= epsilon(multiplier, {WHOLE: 1}, DELTA)


def test_a_small_share_saves_much() -> None:
    assert epsilon(1.0, {(1, 100): 100}, DELTA) < 0.05 * epsilon(1.0, {WHOLE: 100}, DELTA)


def test_it_grows_with_rounds_share_and_less_noise() -> None:
    by_rounds = [epsilon(1.0, {(10, 100): rounds}, DELTA) for rounds in (0, 1, 2, 5, 50)]
    by_share = [epsilon(1.0, {(drawn, 100): 20}, DELTA) for drawn in (1, 5, 20, 50, 99, 100)]
    by_noise = [epsilon(noise, {(10, 100): 20}, DELTA) for noise in (8.0, 4.0, 1.0, 0.3, 0.01)]
    by_delta = [epsilon(1.0, {(10, 100): 20}, delta) for delta in (0.1, 1e-3, 1e-9)]
    for found in (by_rounds, by_share, by_noise, by_delta):
        assert found == sorted(found)
        assert len(set(found)) >= len(found) - 1
    mixed = epsilon(1.0, {(10, 100): 10, (10, 90): 10}, DELTA)
    assert (
        by_share[1]
        < epsilon(1.0, {(10, 100): 20}, DELTA)
        < mixed
        < epsilon(1.0, {(10, 90): 20}, DELTA)
    )


def test_limits() -> None:
    assert epsilon(1.0, {}, DELTA) == 0
    assert epsilon(1.0, {WHOLE: 0}, DELTA) == 0
    assert epsilon(0.0, {WHOLE: 1}, DELTA) == math.inf
    assert epsilon(1e6, {WHOLE: 1}, DELTA) == pytest.approx(0, abs=1e-3)


def test_the_words() -> None:
    line = metrics({"dp.epsilon": 3.14159, "dp.delta": 1e-5, "dp.clipped": 0.5, "term.task": 1.0})
    assert line == {"epsilon": 3.14159, "delta": 1e-5, "clipped": 0.5}
    assert spent(line) == "epsilon 3.142 at delta 1e-05"
    assert spent({"epsilon": None, "delta": 1e-5}) == "epsilon infinite at delta 1e-05"
    assert spent({"epsilon": math.inf, "delta": 1e-5}) == "epsilon infinite at delta 1e-05"
