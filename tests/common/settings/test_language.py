"""The small language: what it reads, what it refuses, and with which words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.language import Call, Params, parse, resolve_line, split, write


class Plain(Params):
    name = "plain"


class Tuned(Params):
    name = "tuned-thing"
    renamed = {"speed": "rate"}  # noqa: RUF012  (a ClassVar of Params)
    rate: float = Field(gt=0)
    """A rate."""
    count: int = Field(3, ge=1)
    """A count."""
    label: str = "a"
    """A text."""


KNOWN = {"plain": Plain, "tuned-thing": Tuned}


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        resolve_line(text, KNOWN, "methods")
    return caught.value.problems


def test_names_hyphens_and_literals() -> None:
    assert parse('plain, tuned-thing(rate=0.5, label="a,(b", count=2)', "methods") == [
        Call("plain"),
        Call("tuned-thing", {"rate": 0.5, "label": "a,(b", "count": 2}),
    ]


def test_commas_inside_brackets_and_quotes_do_not_cut() -> None:
    assert split("a(x=[1, 2]), b(y='p, q'), c") == ["a(x=[1, 2])", "b(y='p, q')", "c"]


def test_negative_and_nested_literals() -> None:
    assert parse("a(x=-1.5, y=(1, -2), z=None)", "methods") == [
        Call("a", {"x": -1.5, "y": (1, -2), "z": None})
    ]


def test_names_are_read_in_any_case_and_lists_as_tuples() -> None:
    assert parse("Plain, Tuned-THING(x=[1, [2]], y='Text')", "methods") == [
        Call("plain"),
        Call("tuned-thing", {"x": (1, (2,)), "y": "Text"}),
    ]


def test_a_former_key_is_refused_with_its_new_name_and_its_value_is_judged_too() -> None:
    assert problems("tuned-thing(speed=0.5)") == [
        "methods: tuned-thing: the key 'speed' is now 'rate'"
    ]
    assert len(problems("tuned-thing(speed=-1, odd=2)")) == 3


def test_written_again_it_reads_the_same() -> None:
    (params,) = resolve_line("tuned-thing(rate=0.25, label='x')", KNOWN, "methods")
    assert write(params) == "tuned-thing(rate=0.25, label='x')"
    assert resolve_line(write(params), KNOWN, "methods") == [params]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plane", ["'plane'", "did you mean 'plain'"]),
        ("zzz", ["'zzz'", "there is plain, tuned-thing"]),
        ("tuned-thing", ["needs the key 'rate'"]),
        ("tuned-thing(rate=0)", ["rate=0", "greater than 0"]),
        ("tuned-thing(rate='x')", ["rate='x'", "number"]),
        ("tuned-thing(rate=1, cuont=2)", ["no key 'cuont'", "did you mean 'count'"]),
        ("tuned-thing(1)", ["keyword arguments only"]),
        ("tuned-thing(**{'rate': 1})", ["does not take '**'"]),
        ("tuned-thing(rate=open('x'))", ["is not a literal"]),
        ("tuned-thing(rate=true)", ["write True"]),
        ("tuned-thing(rate=1, rate=2)", ["'rate' twice"]),
        ("tuned-thing(rate=1", ["cannot read"]),
        ("2plain", ["cannot read '2plain'"]),
        ("plain()x", ["cannot read"]),
        ("", ["empty"]),
        ("plain(x=)", ["cannot read the arguments"]),
        ("plain(x=/srv/x)", ["a path needs quotes: write x='/srv/x'"]),
        ("plain(x=~/a b, y=1)", ["a path needs quotes: write x='~/a b'"]),
        ("plain(x=srv/x)", ['a text is written "srv/x"']),
    ],
)
def test_refusals_name_the_value_and_the_fix(text: str, words: list[str]) -> None:
    message = "\n".join(problems(text))
    for word in words:
        assert word in message
    assert message.startswith("methods: ")


def test_all_problems_at_once() -> None:
    found = problems("plane, tuned-thing(rate=-1, count=0, odd=1), plane")
    assert len(found) == 4  # what is wrong twice in the same way is said once


def test_params_are_frozen() -> None:
    (params,) = resolve_line("plain", KNOWN, "methods")
    with pytest.raises(ValueError, match="frozen"):
        params.name2 = 1  # type: ignore[attr-defined]


def test_nothing_is_evaluated(tmp_path: object) -> None:
    assert "not a literal" in problems("tuned-thing(rate=__import__('os').getpid())")[0]


list(METHODS.items())  # loads the declarations, which is not what is timed below
PIECES = st.sampled_from(
    [
        *"()[]{},='\"*:-#@\\\n\t\x00 ",
        *("fedprox", "vhl", "mu", "0.1", "1e400", "1j", "0x", "True", "nan", "lambda x: x"),
        *("mu=0.1", "fedprox(mu=0.1)", "{**a}", "self=1", "model_config=1", "__init__=1", "f'{x}'"),
        *("9" * 5000, "(" * 300, "[" * 200, "-" * 900, "{1:" * 90, "x" * 4000, "ä", "\ud800"),
    ]
)


@settings(max_examples=400, deadline=1000, derandomize=True)
@given(st.lists(PIECES, max_size=12).map("".join), st.sampled_from(["fedprox({})", "{}"]))
def test_any_text_is_answered_with_a_sentence_within_a_second(text: str, frame: str) -> None:
    """Or it is a line. Nested brackets and signs must not exhaust Python's own parser."""
    found: list[str] = []
    try:
        resolve_line(frame.format(text), METHODS, "methods")
    except ConfigurationError as error:
        found = error.problems
    assert all(problem.startswith("methods: ") for problem in found)


def test_lines_that_are_too_long_or_too_deep_are_refused_with_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match="has 6000 characters, and may have 5000"):
        parse("x" * 6000, "methods")
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        parse(f"fedprox({'-' * 4000}x)", "methods")
