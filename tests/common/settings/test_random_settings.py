"""Random settings: each set of them is a configuration, or is refused with sentences."""

import random
from typing import Any

import pytest

from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.dp.settings import DP
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.schedules import SCHEDULES
from fedmirage.common.methods import METHODS
from fedmirage.common.models.params import MODELS
from fedmirage.common.secagg.settings import SECAGG
from fedmirage.common.settings.config import RunConfig, configure

NAMES: dict[str, dict[str, Any]] = {
    "methods": METHODS,
    "dataset": DATASETS,
    "partition": PARTITIONS,
    "model": MODELS,
    "secagg": SECAGG,
    "dp": DP,
    "schedule": SCHEDULES,
}
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 10**30, -(10**30), 2**63, 0.5, -0.5, 1e308, 1e-320),
    *(float("inf"), float("-inf"), float("nan"), "", "x", "0", "inf", "nan", "-inf", "1e999"),
    *("true", [], {}, [1], b"x", 1j, "9" * 5000, "\x00", "\ud800", "a" * 6000),
]
LITERALS = [
    *("0", "1", "-1", "0.5", "1e400", "-1e400", "10**9", "9" * 21, "True", "None", "'x'", "'auto'"),
    *("()", "(1,)", "[1, 2]", "(0.5, 0.5)", "{}", "{'a': 1}", "1j", "b'x'", "'\\x00'"),
    *("(1, 2, 3, 4)", "'inf'", "nan", "inf", "''", "9" * 4500),
]


def write_line(rng: random.Random, known: dict[str, Any]) -> str:
    calls = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        name = rng.choice(list(known))
        fields = list(known[name].model_fields)
        keys = rng.sample(fields, min(len(fields), rng.randint(0, 3)))
        calls.append(f"{name}({', '.join(f'{key}={rng.choice(LITERALS)}' for key in keys)})")
    return ", ".join(calls)


def draw_settings(rng: random.Random) -> dict[str, Any]:
    chosen = rng.sample(list(RunConfig.model_fields), rng.randint(1, 3))
    return {
        key: write_line(rng, NAMES[key]) if key in NAMES and rng.random() < 0.9 else rng.choice(ODD)
        for key in chosen
    }


@pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_settings_are_a_configuration_or_refused(number: int) -> None:
    rng, accepted = random.Random(number), 0
    for _ in range(number):
        settings = draw_settings(rng)
        try:
            config = configure(settings)
        except ConfigurationError:
            continue
        accepted += 1
        assert config.drawn >= 1
        assert config.cautions is not None
        assert all(config.learning_rate(at) >= 0 for at in (1, config.rounds))
        assert all(method.acts_from(config) >= 1 for method in config.method_list)
    assert 0.02 * number < accepted < 0.2 * number


@pytest.mark.parametrize("key", ["local_steps", "local_epochs"])
def test_an_infinite_length_of_training_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key.replace('_', '-')}=inf"):
        configure({key: float("inf")})
