"""Every method alone, and in pairs: two rounds where two methods meet, reasons for refused pairs.

Methods are found in METHODS, so a new declaration is tried without an edit here; which pairs meet
follows from declarations and halves (tests/support/seams.py). If a method's defaults would
take long, or do nothing in two rounds, its own test module says how it is tried:
TINY = "name(steps=1, start=1)" in tests/methods/test_name.py.
"""

import itertools
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import local_models
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.inprocess import run_in_process
from tests.support.pairs import BASE, BATCH_NORM, finite, line
from tests.support.runs import KilledError, kill_in_round
from tests.support.seams import Pair, choose, meeting, problems, where_to_look

CHOSEN = choose(METHODS)


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
    state = read_checkpoint(folder / "checkpoint.safetensors")
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


@pytest.mark.parametrize("pair", CHOSEN, ids=", ".join)
def test_every_pair_that_meets_runs_and_both_count(pair: Pair) -> None:
    """Naming `fedavg` changes nothing: beside it, a method is what it is alone."""
    try:
        result = outcome.__wrapped__(pair)  # not kept: no other test asks for it
    except Exception as error:
        error.add_note(where_to_look(pair))
        raise
    assert finite(result), f"a weight is not finite; {where_to_look(pair)}"
    for name, other in (pair, pair[::-1]):
        if other == "fedavg":
            assert same_bits(result, outcome((name,))), f"fedavg does something beside {name}"
        elif name != "fedavg":
            assert differ(result, outcome((name,))), (
                f"{other} does nothing beside {name}; {where_to_look(pair)}"
            )


@pytest.mark.parametrize("name", METHODS)
def test_every_unsound_pair_is_refused_with_the_reason(name: str) -> None:
    """Declarations decide this, so nothing runs."""
    for other in METHODS:
        if other == name or not (found := problems((name, other))):
            continue
        with pytest.raises(ConfigurationError) as refusal:
            configure({**BASE, "methods": f"{line(name)}, {line(other)}"})
        assert set(found) <= set(refusal.value.problems)
        assert {name, other} <= set(re.findall(r"[\w-]+", str(refusal.value))), (name, other)


def test_the_chosen_pairs_are_those_that_meet() -> None:
    met = {frozenset(pair) for pair in CHOSEN}
    assert frozenset().union(*met) == {*METHODS}
    for pair in (("scaffold", "vhl"), ("fedsam", "vhl"), ("fedlgd", "fedprox"), ("fedper", "moon")):
        assert meeting(pair)
        assert frozenset(pair) in met
    assert {("scaffold", "vhl"), ("vhl", "scaffold")} <= {*CHOSEN}  # nested on the server
    assert ("moon", "fedprox") not in CHOSEN  # terms add up: one order is enough
    assert not meeting(("fedprox", "fedavgm"))


def test_a_failing_pair_says_what_to_look_at() -> None:
    text = where_to_look(("scaffold", "vhl"))
    assert "scaffold at the server's strategy (aggregate_fit, configure_fit)" in text
    assert "vhl at the parts or outputs of the model" in text
    assert "client/methods/scaffold client/methods/vhl server/methods/scaffold" in text
    assert 'fedmirage run --runtime inprocess --methods "scaffold, vhl(' in text


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
