"""How many neighbours are enough: the bounds against counting and against drawing."""

import itertools
import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from fedmirage.common.secagg.circle import Circle
from fedmirage.common.secagg.neighbours import (
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
from fedmirage.common.secagg.settings import AMONG_SOME


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


def read_row(name: str) -> list[str]:
    """The cells of one row of docs/security.md."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    row = text.split(f"| {name} |")[1].split("\n")[0]
    return [cell.strip() for cell in row.split("|")[:-1]]


def test_the_table_of_neighbours() -> None:
    """docs/security.md has the plans, and what they stand."""
    rows = [
        [int(cell) for cell in read_row(name)]
        for name in (
            "clients in a try (n)",
            "neighbours, with the client itself (k)",
            "shares of them that open a key (t)",
            "accomplices that a neighbourhood stands",
            "losses that a neighbourhood stands",
        )
    ]
    for clients, shares, threshold, accomplices, losses in zip(*rows, strict=True):
        plan = plan_neighbours(clients, AMONG_SOME)
        assert (plan.shares, plan.threshold) == (shares, threshold)
        assert (plan.accomplices, plan.losses) == (accomplices, losses)
    assert ACCOMPLICES == LOST == Fraction(1, 10)
    assert (SAFETY_BITS, SUCCESS_BITS, FEWEST, COMPLETE) == (40, 20, 51, 64)


@pytest.mark.parametrize(
    ("name", "percent", "least"),
    [
        ("repeated rounds may show an update (c >= t - k/2), 10 % accomplices", 10, "repeated"),
        ("the same, 20 % accomplices", 20, "repeated"),
        (
            "the server may open both keys of a client in one try (c >= 2t - k), 20 %",
            20,
            "one try",
        ),
        ("the same, 30 % accomplices", 30, "one try"),
        ("accomplices alone have both keys of a client (c >= t), 30 %", 30, "alone"),
    ],
)
def test_the_table_of_risks(name: str, percent: int, least: str) -> None:
    """docs/security.md: binary logarithms of bounds, "never" for 0 and "likely" for 1 or more."""
    for clients, cell in zip((100, 200, 500, 1000), read_row(name), strict=True):
        plan, helpers = plan_neighbours(clients, AMONG_SOME), clients * percent // 100
        needed = {
            "repeated": plan.accomplices + 1,
            "one try": 2 * plan.threshold - plan.shares,
            "alone": plan.threshold,
        }[least]
        risk = (clients - helpers) * tail(clients - 1, helpers, plan.shares - 1, needed)
        says = "never" if not risk else "likely" if risk >= 1 else f"{math.log2(risk):.1f}"
        assert says == cell
