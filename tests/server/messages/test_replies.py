"""Replies that must not be used, each with its sentence."""

import io
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from flwr.common import Code, FitRes, Parameters, Status, ndarrays_to_parameters

from fedmirage.common.errors import WireError
from fedmirage.common.method import Method, Section
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.server.messages.replies import ReplyCheck, clean
from tests.support.facts import entries, make_facts

REFERENCE = [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)]
NAMES = ["features.weight", "classifier.bias"]
SECTIONS = (
    Section("control"),
    Section("norm", holds="number"),
    Section("counts", holds=lambda classes, shape: [(classes,)]),
    Section("odd", holds=None),
)


class Sender(Method):
    name: ClassVar[str] = "sender"
    up: ClassVar[tuple[Section, ...]] = SECTIONS


def check(methods: str, trainable: Sequence[bool]) -> ReplyCheck:
    METHODS["sender"] = Sender
    try:
        run = make_facts(
            configure({"methods": methods}),
            manifest=entries(*zip(NAMES, REFERENCE, trainable, strict=True)),
        )
        return ReplyCheck(run)
    finally:
        del METHODS["sender"]


CHECK = check("fedavg", [True, True])
BESIDE = check("sender", [True, False])


def answer(
    arrays: list[np.ndarray], layout: str = "shared:2", examples: int = 5, **metrics: object
) -> FitRes:
    return FitRes(
        Status(Code.OK, ""), ndarrays_to_parameters(arrays), examples, {"layout": layout, **metrics}
    )


def problem(check: ReplyCheck, reply: FitRes) -> str | None:
    """Why a reply cannot be used; None if it can."""
    try:
        check.check(reply)
    except WireError as error:
        return str(error)
    return None


def test_a_good_reply_passes() -> None:
    assert problem(CHECK, answer(REFERENCE)) is None
    assert problem(BESIDE, beside(REFERENCE[0], np.ones(1), np.ones(7))) is None


def test_figures_that_nobody_declared_are_refused() -> None:
    assert problem(CHECK, answer(REFERENCE, steps=3, seconds=0.5)) is None
    words = str(problem(CHECK, answer(REFERENCE, **{"term.secret": 1.0})))
    assert "the metric 'term.secret' is not declared by any method" in words


def test_arrays_of_other_shapes_are_checked_by_their_declaration() -> None:
    wrong = str(problem(BESIDE, beside(REFERENCE[0], np.ones(1), np.ones(7), np.ones(3))))
    assert "'counts.0' is float64(3,)" in wrong


def beside(
    control: np.ndarray, norm: np.ndarray, odd: np.ndarray, counts: np.ndarray | None = None
) -> FitRes:
    counted = np.ones(2) if counts is None else counts
    layout = "shared:2 control:1 counts:1 norm:1 odd:1"
    return answer([*REFERENCE, control, counted, norm, odd], layout)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (beside(REFERENCE[1], np.ones(1), np.ones(1)), "but in the section 'control'"),
        (beside(REFERENCE[0], np.ones(2), np.ones(1)), "'norm' is float64(2,)"),
        (
            beside(REFERENCE[0], np.ones(1), np.array([np.inf])),
            "'odd' holds values that are not finite",
        ),
        (
            beside(REFERENCE[0], np.ones(1), np.array([np.iinfo(np.int64).min])),
            "'odd' holds values above 1e+09",
        ),
        (answer(REFERENCE), "this run sends 'shared control norm counts odd'"),
    ],
)
def test_what_comes_beside_the_model_is_checked_too(reply: FitRes, words: str) -> None:
    assert words in str(problem(BESIDE, reply))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            answer([np.full((2, 3), np.nan, np.float32), REFERENCE[1]]),
            "'features.weight' holds values that are not finite",
        ),
        (
            answer([REFERENCE[0], np.full(3, np.inf, np.float32)]),
            "'classifier.bias' holds values that are not finite",
        ),
        (
            answer([np.zeros((3, 2), np.float32), REFERENCE[1]]),
            "float32(3, 2), but in the model it is float32(2, 3)",
        ),
        (answer([REFERENCE[0].astype(np.float16), REFERENCE[1]]), "float16(2, 3)"),
        (answer(REFERENCE[:1], "shared:1"), "sent 1 arrays of the model, which has 2"),
        (answer([np.zeros((2, 3000), np.float32), REFERENCE[1]]), "bytes"),
        (answer([*REFERENCE, np.ones(7)], "shared:2 odd:1"), "'shared:2 odd:1'"),
        (answer(REFERENCE, "control:2"), "'control:2'"),
        (answer(REFERENCE, "shared:1"), "layout"),
        (answer(REFERENCE, examples=-1), "-1 examples"),
        (answer([], "", error="training diverged"), "training diverged"),
        (
            FitRes(
                Status(Code.OK, ""),
                Parameters([b"junk", b"junk"], "numpy.ndarray"),
                1,
                {"layout": "shared:2"},
            ),
            "cannot be read",
        ),
        (FitRes(Status(Code.OK, ""), ndarrays_to_parameters(REFERENCE), 1, {}), "layout"),
    ],
)
def test_a_bad_reply_gets_its_sentence(reply: FitRes, words: str) -> None:
    assert words in str(problem(CHECK, reply))


def test_objects_do_not_get_through() -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([None], dtype=object), allow_pickle=True)
    good = ndarrays_to_parameters(REFERENCE).tensors
    reply = FitRes(
        Status(Code.OK, ""),
        Parameters([stream.getvalue(), good[1]], "numpy.ndarray"),
        1,
        {"layout": "shared:2"},
    )
    assert "and not plain numbers" in str(problem(CHECK, reply))


def test_texts_of_clients_are_made_fit_to_be_shown() -> None:
    """No escape sequence reaches a terminal, no line break a log, no novel either."""
    assert clean("a\x1b[31mred\nline\u202e two") == "a [31mred line two"
    assert clean("x" * 10**6) == "x" * 400 + "..."
