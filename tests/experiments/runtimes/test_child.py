"""Where a run takes place, and how much disk space it will need."""

import pytest

from common.settings.config import configure
from experiments.runtimes.child import SMALL, choose, estimate_space


@pytest.mark.parametrize(
    ("settings", "runtime", "words"),
    [
        ({"clients": 5, "rounds": 10}, "inprocess", "50 client trainings"),
        ({"clients": 10, "rounds": SMALL // 10}, "inprocess", "small"),
        ({"clients": 10, "rounds": SMALL // 10 + 1}, "simulation", "--runtime inprocess"),
        ({"clients": 1000, "participation": 0.01, "rounds": 10}, "inprocess", "100 client"),
    ],
)
def test_a_small_run_needs_no_ray(settings: dict[str, int], runtime: str, words: str) -> None:
    chosen, why = choose(configure({**settings, "device": "cpu"}))
    assert chosen == runtime
    assert words in why


def test_kept_models_are_counted_before_they_are_there() -> None:
    config = configure({"clients": 4, "rounds": 100, "keep_models": "all"})
    text = estimate_space(config, 2_000_000)
    assert "at least 1000 MB" in text
    assert "200 MB of global models, 800 MB that clients remember" in text
