"""Contradictions beside refused values: every problem is a sentence, and none is a stack trace."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import Draft, configure, defaults, validate
from fedmirage.common.settings.lines import Lines, read_lines
from fedmirage.common.settings.rules import RULES, RefusedError, contradictions

BAD = ["abc", "", "-3", "0", 0, -1, None, "None", "nan", "1e999", 10**30, True, [], "on(", "x(y=1)"]
LINES = ("methods", "dataset", "partition", "model", "secagg", "dp")
# Lines whose checks look at many settings.
CURIOUS = {
    "methods": "fednova, dynafed(length=2), vhl",
    "secagg": "on",
    "dp": "local(clip=1, noise=1)",
}


def problems(given: dict[str, Any]) -> list[str]:
    """What is said about these settings; anything but a refusal is a failed test."""
    try:
        configure(given)
    except ConfigurationError as error:
        return error.problems
    return []


@pytest.mark.parametrize("key", sorted(defaults()))
def test_a_bad_value_of_any_key_gives_sentences_only(key: str) -> None:
    for value in BAD:
        for others in ({}, CURIOUS):
            assert all(isinstance(problem, str) for problem in problems({**others, key: value}))


@pytest.mark.parametrize("key", sorted(defaults()))
def test_a_bad_value_does_not_hide_that_of_another_key(key: str) -> None:
    alone = problems({key: None})
    assert len(alone) == 1
    assert set(alone) < set(problems(dict.fromkeys(defaults(), None)))
    for other in {"clients", "min-replies", "methods", "secagg"} - {key}:
        together = problems({**CURIOUS, key: None, other: None})
        assert {*alone, *problems({other: None})} <= set(together), other


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(defaults())),
        st.one_of(
            st.sampled_from(BAD),
            st.integers(),
            st.floats(),
            st.text(max_size=8),
            st.sampled_from([f"{name}(x=1)" for name in METHODS] + list(METHODS)),
        ),
        max_size=6,
    )
)
def test_nothing_but_a_refusal_comes_out(given: dict[str, Any]) -> None:
    problems(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"clients": "10", "lr": "0"}, ["lr='0'"]),
        ({"participation": "abc"}, ["participation='abc'"]),
        ({"min-replies": "x", "clients": "0"}, ["min-replies='x'", "clients='0'"]),
        # A valid text counts as the number that it is, beside a refused one too.
        ({"min-replies": "6", "clients": "5", "lr": "0"}, ["lr='0'", "min-replies=6 is more"]),
        # A method's check runs if all that it looks at is valid, whatever else is not.
        ({"methods": "scaffold", "optimizer": "adam", "lr": 0}, ["lr=0", "scaffold reads"]),
        ({"methods": "dynafed", "clients": "x", "patience": 2}, ["clients='x'", "patience=2"]),
        ({"secagg": "on", "clients": 2, "dp": "loca"}, ["'loca'", "a round has 2 of 2"]),
    ],
)
def test_every_problem_and_no_more(given: dict[str, Any], told: list[str]) -> None:
    found = problems(given)
    assert len(found) == len(told)
    for words in told:
        assert any(words in problem for problem in found), words


def test_lines_are_a_value_whatever_order_they_are_read_in() -> None:
    texts = {key: defaults()[key] for key in LINES} | {"model": "zzz", "dp": None}
    expected = read_lines(texts)
    assert expected[0].model is expected[0].dp is None
    assert len(expected[1]) == 1  # what is not a string was refused elsewhere
    for order in list(permutations(LINES))[::60]:
        assert read_lines({key: texts[key] for key in order}) == expected


def test_rules_take_what_they_are_given() -> None:
    """No rule depends on something that another one happened to fill in."""
    nothing = Draft.model_construct()
    unread = Lines(None, None, None, None, None, None, None)
    assert contradictions(nothing, unread) == []
    for rule in RULES:
        with pytest.raises(RefusedError):
            rule(nothing, unread)
    config = validate({**defaults(), "clients": 3})
    draft = Draft.model_construct(**{**config.model_dump(), "methods": "fedavg, fedavg"})
    lines, _ = read_lines({"methods": "fedavg, fedavg"})
    assert contradictions(draft, lines) == contradictions(draft, lines) != []
