"""Methods that cannot act in the rounds of a run say so before it starts, and only those do."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, line
from tests.support.runs import weights

IDLE = "so it never acts"
# Here the first rounds are FedAvg's. Other methods are written as in the tests of all pairs.
LATER = {
    "fedcog": "fedcog(start=3, samples=6, steps=2)",
    "dynafed": (
        "dynafed(length=2, segment=1, iterations=2, steps=1, per_class=1, epochs=1, lr=0.01,"
        " max_loss=100, min_participants=1, same_round=False)"
    ),
}


def cautions(methods: str, rounds: int, warm_start: str = "") -> list[str]:
    settings = {**BASE, "methods": methods, "rounds": rounds, "warm_start": warm_start}
    return [caution for caution in configure(settings).cautions if IDLE in caution]


@cache
def result(methods: str, rounds: int, warm_start: str = "") -> list[np.ndarray]:
    folder = Path(tempfile.mkdtemp())
    try:
        run_in_process(
            folder, **{**BASE, "methods": methods, "rounds": rounds, "warm_start": warm_start}
        )
        saved = folder / "model.safetensors"  # which a method that shares nothing does not have
        offered = read_arrays(saved)[0] if saved.exists() else {}
        return [*weights(folder), *offered.values()]
    finally:
        shutil.rmtree(folder)


def is_fedavg(methods: str, rounds: int, warm_start: str = "") -> bool:
    found, fedavg = result(methods, rounds, warm_start), result("fedavg", rounds, warm_start)
    return [array.tobytes() for array in found] == [array.tobytes() for array in fedavg]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run two rounds of FedAvg, and keep both models."""
    folder = tmp_path_factory.mktemp("parent")
    run_in_process(folder, **BASE, keep_models="all")
    return str(folder)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "fedavg"])
def test_a_method_acts_from_the_round_that_it_names(name: str) -> None:
    """With one round less, the run is FedAvg's bit for bit, and a warning says so."""
    methods = LATER.get(name, line(name))
    config = configure({**BASE, "methods": methods})
    first = config.method_list[0].acts_from(config)
    for rounds in range(1, first):
        (caution,) = cautions(methods, rounds)
        assert f"methods: {name} acts from round {first} on, but rounds={rounds}" in caution
        assert is_fedavg(methods, rounds)
    assert cautions(methods, first) == []
    assert not is_fedavg(methods, first)


def test_which_methods_need_more_than_one_round() -> None:
    """FedDyn's server step and penalty act in the first round; SCAFFOLD's correction does not."""
    found = {}
    for name in METHODS:
        methods = LATER.get(name, line(name))
        config = configure({**BASE, "methods": methods})
        if (first := config.method_list[0].acts_from(config)) > 1:
            found[name] = first
    assert found == {
        "dynafed": 3,
        "ema": 2,
        "fedavgm": 2,
        "fedcog": 3,
        "fedgen": 2,
        "moon": 2,
        "scaffold": 2,
        "swa": 2,
    }


@pytest.mark.parametrize(
    ("methods", "acts_from"),
    [
        ("scaffold", 4),  # control variates begin at zero again
        ("fedavgm", 4),  # and so does the velocity
        ("moon", 3),  # the clients' last models are inherited
        (LATER["fedcog"], 3),
        (LATER["fedcog"].replace("start=3", "start=4"), 4),
        (LATER["dynafed"], 4),  # the parent's two averages are the path; repairs come a round later
    ],
)
def test_after_a_warm_start_acting_may_begin_later(
    parent: str, methods: str, acts_from: int
) -> None:
    warm_start = f"{parent}@2"
    for rounds in range(3, acts_from):
        assert cautions(methods, rounds, warm_start)
        assert is_fedavg(methods, rounds, warm_start)
    assert cautions(methods, acts_from, warm_start) == []
    assert not is_fedavg(methods, acts_from, warm_start)


def test_a_parent_without_kept_models_offers_no_path(tmp_path: Path) -> None:
    run_in_process(tmp_path, **BASE)
    warm_start = f"{tmp_path}@2"
    assert cautions(LATER["dynafed"], 4, warm_start)
    assert is_fedavg(LATER["dynafed"], 4, warm_start)
    assert cautions(LATER["dynafed"], 5, warm_start) == []
    assert not is_fedavg(LATER["dynafed"], 5, warm_start)


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("vhl(variant='vftl', generator='gaussian', per_class=2)", "pre-trains the model that"),
        ("fedcog(start=1, stop=2, samples=6, steps=2)", "goes on with round 3"),
    ],
)
def test_what_a_warm_start_leaves_no_room_for_is_said(
    parent: str, methods: str, reason: str
) -> None:
    (caution,) = cautions(methods, 3, f"{parent}@2")
    assert reason in caution
    assert is_fedavg(methods, 3, f"{parent}@2")
    assert cautions(methods, 3) == []
    assert not is_fedavg(methods, 3)


def test_a_warm_start_without_a_round_counts_the_rounds_alone() -> None:
    assert cautions("scaffold", 1, "runs/one")
    assert cautions("scaffold", 2, "runs/one") == []
    assert cautions("fedcog", 50, "runs/one")


def test_parameters_decide() -> None:
    """Nesterov's step, and a server learning rate other than 1, change even the first average.

    A path without the initial model has at least two averages.
    """
    for methods in ("fedavgm(nesterov=True)", "fedavgm(lr=0.5)"):
        assert cautions(methods, 1) == []
        assert not is_fedavg(methods, 1)
    short = LATER["dynafed"].replace("length=2", "length=1, initial=False")
    assert cautions(short, 2)
    assert is_fedavg(short, 2)
    assert cautions(short, 3) == []
    assert not is_fedavg(short, 3)
