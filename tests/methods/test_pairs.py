"""Every method alone, and every pair: sound pairs run two rounds, others are refused with a reason.

Methods are found in METHODS, so a new declaration is tried without an edit here. If a method's
defaults would take long, or do nothing in two rounds, its own test module says how it is tried:
TINY = "name(steps=1, start=1)" in tests/methods/test_name.py.
"""

import itertools
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fedmirage.client.objective import Objective
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import local_models
from fedmirage.common.methods import METHODS, clashes, half
from fedmirage.common.settings.config import configure
from fedmirage.common.settings.language import resolve_line
from fedmirage.common.wire.files import read_arrays
from fedmirage.server.record.checkpoint import read
from fedmirage.server.strategy.wrapper import StrategyWrapper
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, BATCH_NORM, finite, line
from tests.support.runs import KilledError, kill_in_round


def problems(names: tuple[str, ...]) -> list[str]:
    return clashes(
        [method for name in names for method in resolve_line(line(name), METHODS, "methods")]
    )


def meet(one: str, other: str) -> bool:
    """Whether two methods have halves on the same side; if not, their order cannot matter."""
    sides = {"client": Objective, "server": StrategyWrapper}
    (first,), (second,) = (resolve_line(line(name), METHODS, "methods") for name in (one, other))
    return any(half(side, first, base) and half(side, second, base) for side, base in sides.items())


PAIRS = [(one, other) for one in METHODS for other in METHODS if one != other]
SOUND = [pair for pair in PAIRS if not problems(pair) and (meet(*pair) or pair[0] < pair[1])]
UNSOUND = [pair for pair in PAIRS if problems(pair)]


@cache
def outcome(names: tuple[str, ...], model: str = BASE["model"]) -> list[np.ndarray]:
    """What two rounds lead to: shared weights, the model that is saved, and each client's own."""
    folder = Path(tempfile.mkdtemp())
    try:
        settings = {**BASE, "model": model, "keep_models": "all"}
        run_in_process(folder, **settings, methods=", ".join(map(line, names)))
        return arrays(folder)
    finally:
        shutil.rmtree(folder)


def arrays(folder: Path) -> list[np.ndarray]:
    state = read(folder / "checkpoint.safetensors")
    own = local_models(folder / "memory" / state.token, state.round)
    saved = folder / "model.safetensors"
    offered = read_arrays(saved)[0] if saved.exists() else {}
    return [*state.shared, *offered.values(), *(array for _, model in own for array in model)]


def differ(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    if [array.shape for array in one] != [array.shape for array in other]:
        return True
    return any(np.abs(a - b).max() > 1e-6 for a, b in zip(one, other, strict=True))


def same_bits(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return [array.tobytes() for array in one] == [array.tobytes() for array in other]


@pytest.mark.parametrize("model", [BASE["model"], BATCH_NORM])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_and_does_something(name: str, model: str) -> None:
    assert finite(outcome((name,), model))
    assert differ(outcome((name,), model), outcome(("fedavg",), model)) == (name != "fedavg")


@pytest.mark.parametrize("pair", SOUND, ids=", ".join)
def test_every_sound_pair_runs_and_both_count(pair: tuple[str, str]) -> None:
    """Naming `fedavg` changes nothing: beside it, a method is what it is alone."""
    result = outcome.__wrapped__(pair)  # not kept: no other test asks for it
    assert finite(result)
    for name, other in (pair, reversed(pair)):
        if other == "fedavg":
            assert same_bits(result, outcome((name,)))
        elif name != "fedavg":
            assert differ(result, outcome((name,)))


@pytest.mark.parametrize("pair", UNSOUND, ids=", ".join)
def test_every_unsound_pair_is_refused_with_the_reason(pair: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({**BASE, "methods": ", ".join(map(line, pair))})
    assert set(problems(pair)) <= set(refusal.value.problems)
    for name in pair:
        assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("fedavgm, feddyn", "fedavgm and feddyn each change the server's update"),
        ("fednova, fedexp", "fednova and fedexp each change the server's update"),
        (
            "fedper, lg-fedavg",
            r"fedper \(features\) and lg-fedavg \(classifier\) each decide what is shared",
        ),
        ("fedper, scaffold", "scaffold needs the whole model, but fedper shares only: features"),
        ("moon, lg-fedavg", "moon needs the features, but lg-fedavg shares only: classifier"),
        ("local, feddyn", "feddyn needs the whole model, but local shares only: nothing"),
        ("scaffold, scaffold", "'scaffold' is listed more than once"),
    ],
)
def test_reasons(methods: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure({"methods": methods})


def test_sound_pairs_are_those_that_the_papers_report() -> None:
    """FedCOG and VHL stand on these; a rule that refused one of them would be wrong."""
    for pair in itertools.combinations(
        ["fedprox", "moon", "scaffold", "fedavgm", "feddecorr", "fedsam"], 2
    ):
        assert not problems(pair)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_resumes_with_the_same_bits(tmp_path: Path, name: str) -> None:
    """The run is killed halfway through round 3, with two of four clients per round.

    What a method keeps, on either side, is found again.
    """
    settings = {**BASE, "participation": 0.5, "rounds": 4, "methods": line(name)}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert finite(arrays(tmp_path / "whole"))
    assert same_bits(arrays(tmp_path / "whole"), arrays(tmp_path / "cut"))
