"""Every method alone, and in pairs: two rounds where two methods meet, reasons for refused pairs.

Methods are found in METHODS, so a new declaration is tried without an edit here; which pairs meet
follows from declarations and halves (fedmirage/testing/seams.py). If a method's defaults would take
long, or do nothing in two rounds, its declaration says how it is tried: `quick`.
"""

import itertools
from pathlib import Path

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.quick import BASE, BATCH_NORM
from fedmirage.testing.checks import check_acts, check_pair, check_refused, check_resumes
from fedmirage.testing.seams import Pair, meeting, problems, where_to_look
from tests.support.pairs import choose

CHOSEN = choose(METHODS)


@pytest.mark.parametrize("model", [BASE["model"], BATCH_NORM])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_and_does_something(name: str, model: str) -> None:
    check_acts(name, model)


@pytest.mark.parametrize("pair", CHOSEN, ids=", ".join)
def test_every_pair_that_meets_runs_and_both_count(pair: Pair) -> None:
    check_pair(pair)


@pytest.mark.parametrize("name", METHODS)
def test_every_unsound_pair_is_refused_with_the_reason(name: str) -> None:
    """Declarations decide this, so nothing runs."""
    for other in METHODS:
        if other != name:
            assert check_refused((name, other)) == bool(problems((name, other)))


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
    check_resumes(name, tmp_path)
