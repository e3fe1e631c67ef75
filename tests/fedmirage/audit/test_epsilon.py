"""The budget of --dp holds; with less noise than it says, the audit tells."""

import logging
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedmirage.common.dp.bound
import fedmirage.server.strategy.dp
from fedmirage.audit.attacks_on_outcomes import Epsilon
from fedmirage.audit.epsilon import CanaryRuns, bound_epsilon
from fedmirage.common.dp.accounting import compose_gaussians
from fedmirage.common.settings.config import configure
from fedmirage.server.strategy import budget
from tests.support.audits import attack_run

RUNS = 1000
PLACES = {"central": fedmirage.server.strategy.dp, "local": fedmirage.common.dp.bound}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of a test spend the same, so it is computed once, and no run writes to the log."""
    monkeypatch.setattr(logging.getLogger("flwr"), "disabled", True)
    once = cache(lambda multipliers, delta: compose_gaussians(multipliers, delta))
    monkeypatch.setattr(
        budget, "compose_gaussians", lambda multipliers, delta: once(tuple(multipliers), delta)
    )


def release(dp: str, runs: int = 100, **settings: Any) -> tuple[CanaryRuns, float]:
    config = configure({"dp": dp, "clients": 3, "rounds": 1, **settings})
    releases = CanaryRuns(config, config.dp_params)  # type: ignore[arg-type]
    told = [releases.observe(number % 2 == 0) for number in range(runs)]
    return releases, max(told)


@pytest.mark.parametrize("kind", ["central", "local"])
@pytest.mark.parametrize("share", [1, 4])
def test_a_quarter_of_the_noise_is_caught(
    kind: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise is seeded here, so that the test always sees the same."""
    random = np.random.default_rng(7)
    monkeypatch.setattr(
        PLACES[kind],
        "gaussian",
        lambda shape, deviation: random.normal(0, deviation / share, shape),
    )
    releases, told = release(f"{kind}(clip=0.5, noise=4)", RUNS)
    bound = bound_epsilon(*releases.seen, 1e-5)
    assert told == pytest.approx(1.99309, abs=1e-4)
    assert (bound.epsilon > told) == (share == 4)
    assert bound.epsilon > 0


def test_what_is_seen_is_the_bounded_update() -> None:
    """Both data give means of +clip and -clip, with the noise's deviation around them."""
    releases, _ = release("central(clip=0.5, noise=0.01)")
    first, second = map(np.asarray, releases.seen)
    assert first.mean() == pytest.approx(0.5, abs=0.005)
    assert second.mean() == pytest.approx(-0.5, abs=0.005)
    assert first.std() == pytest.approx(0.005, rel=0.5)


def test_rounds_add_up() -> None:
    """Two rounds show twice the movement, with sqrt(2) of the noise."""
    releases, told = release("local(clip=0.5, noise=0.02)", rounds=2)
    assert np.mean(releases.seen[0]) == pytest.approx(1, abs=0.01)
    assert np.std(releases.seen[0]) == pytest.approx(0.01 * 2**0.5, rel=0.5)
    assert told > 1000


def test_bound_by_hand() -> None:
    """The first data are always above 0, the second never: the ends are those of 100 of 100."""
    found = bound_epsilon([1.0] * 200, [-1.0] * 200, 1e-5)
    low, high = 0.025 ** (1 / 100), 1 - 0.025 ** (1 / 100)
    assert (found.right, found.wrong, found.runs) == (100, 0, 100)
    assert found.epsilon == pytest.approx(np.log((low - 1e-5) / high))


def test_the_attack_tells_that_the_budget_holds(tmp_path: Path) -> None:
    dp = "central(clip=0.5, noise=4)"
    found = attack_run(Epsilon(runs=500), tmp_path, dp=dp, rounds=1, clients=3)
    assert found.numbers["bound"] < found.numbers["accountant"] == pytest.approx(1.99309, abs=1e-4)
    assert found.says[0].startswith("Nothing speaks against the budget")
