"""How many neighbours are enough: the bounds against counting and against drawing."""

import itertools
import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from common.secagg.circle import Circle
from common.secagg.neighbours import (
    ACCOMPLICES,
    COMPLETE,
    FEWEST,
    LOST,
    SAFETY_BITS,
    SUCCESS_BITS,
    KeyPlan,
    plan_neighbours,
    risk_of_exposure,
    risk_of_failure,
    tail,
)
from common.secagg.settings import AMONG_SOME


@pytest.mark.parametrize(
    ("others", "marked", "drawn"), [(7, 3, 4), (8, 2, 5), (6, 6, 3), (9, 0, 4)]
)
def test_the_tail_is_what_counting_gives(others: int, marked: int, drawn: int) -> None:
    """Of all ways to draw, those in which so many of the first `marked` are drawn."""
    draws = [set(draw) for draw in itertools.combinations(range(others), drawn)]
    for least in range(drawn + 2):
        found = sum(len(draw & set(range(marked))) >= least for draw in draws)
        assert tail(others, marked, drawn, least) == Fraction(found, len(draws))


def test_the_risk_of_exposure_bounds_what_circles_show() -> None:
    """All orders of seven clients of which three are accomplices, with four neighbours each, of
    which one may be an accomplice: the bound adds up what may happen to several at once."""
    plan = KeyPlan(5, 4)
    assert plan.accomplices == 1
    exposed = 0
    orders = list(itertools.permutations(range(7)))
    for order in orders:
        circle = Circle("ab", 1, {who: who for who in order})
        around = [circle.neighbours(who, 5) & {0, 1, 2} for who in range(3, 7)]
        exposed += max(map(len, around)) > plan.accomplices
    assert exposed / len(orders) <= risk_of_exposure(7, plan, Fraction(3, 7))
    one = sum(
        len(Circle("ab", 1, {who: who for who in order}).neighbours(3, 5) & {0, 1, 2}) > 1
        for order in orders
    )
    assert 4 * Fraction(one, len(orders)) == risk_of_exposure(7, plan, Fraction(3, 7))


def test_the_risk_of_failure_is_what_drawing_shows() -> None:
    """Forty clients of which eight are lost, ten neighbours of which three may be."""
    plan, rng, tries = KeyPlan(11, 8), random.Random(1), 4000
    failed = 0
    for _ in range(tries):
        order = rng.sample(range(40), 40)
        circle = Circle("ab", 1, {who: who for who in order})
        failed += len(circle.neighbours(0, 11) & set(range(32, 40))) > plan.losses
    expected = float(risk_of_failure(40, plan, Fraction(1, 5)) / 40)
    assert failed / tries == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("clients", [65, 100, 200, 500])
def test_the_plan_is_the_smallest_that_is_safe(clients: int) -> None:
    plan = plan_neighbours(clients, AMONG_SOME)
    assert risk_of_exposure(clients, plan) <= Fraction(1, 2**SAFETY_BITS)
    assert risk_of_failure(clients, plan) <= Fraction(1, 2**SUCCESS_BITS)
    if plan.shares > FEWEST:
        less = KeyPlan.of(plan.shares - 2, AMONG_SOME)
        risks = risk_of_exposure(clients, less), risk_of_failure(clients, less)
        assert risks[0] > Fraction(1, 2**SAFETY_BITS) or risks[1] > Fraction(1, 2**SUCCESS_BITS)


def test_neighbours_grow_more_slowly_than_clients() -> None:
    assert plan_neighbours(COMPLETE, AMONG_SOME).shares == COMPLETE
    shares = [plan_neighbours(clients, AMONG_SOME).shares for clients in (65, 250, 1000)]
    assert shares[1] < 2 * shares[0]
    assert shares[2] < 2.5 * shares[1]


def test_a_threshold_that_no_circle_serves_keeps_all_clients_neighbours() -> None:
    """With 0.55 a twentieth of the neighbours may be accomplices, and a tenth is expected."""
    assert plan_neighbours(300, 0.55).shares == 300


def test_the_table_of_neighbours() -> None:
    """docs/security.md has the plans, and what they stand."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    names = ("clients in a try (n)", "neighbours (k)", "shares that open a key (t)")
    names += ("accomplices in a neighbourhood", "lost in a neighbourhood")
    table = text.split("| clients in a try (n) |")[1]
    cells = [
        [int(cell) for cell in row.split("|")[1 if number else 0 : -1] if cell.strip().isdigit()]
        for number, row in enumerate(table.split("\n"))
        if number != 1
    ][: len(names)]
    for clients, shares, threshold, accomplices, losses in zip(*cells, strict=True):
        plan = plan_neighbours(clients, AMONG_SOME)
        assert (plan.shares, plan.threshold) == (shares, threshold)
        assert (plan.accomplices, plan.losses) == (accomplices, losses)
    for value in (ACCOMPLICES, LOST):
        assert value == Fraction(1, 10)
    assert math.log2(risk_of_exposure(1000, plan_neighbours(1000, AMONG_SOME))) < -SAFETY_BITS
