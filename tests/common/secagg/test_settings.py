"""The keys of --secagg, the bit budget, and what is refused before the start."""

from pathlib import Path
from typing import ClassVar

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import Method, Section
from fedmirage.common.secagg.neighbours import KeyPlan
from fedmirage.common.secagg.settings import SecAggOff, SecAggOn, why_not
from fedmirage.common.settings.config import configure


def test_off_is_the_default_and_on_the_bare_flag() -> None:
    assert isinstance(configure({}).secagg_params, SecAggOff)
    assert isinstance(configure({"secagg": "on"}).secagg_params, SecAggOn)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"secagg": "yes"}, "secagg: no .*'yes'"),
        ({"secagg": "on(bits=50)"}, "bits=50"),
        ({"secagg": "on(threshold=0.5)"}, "threshold=0.5"),
        ({"secagg": "on(threshold=1)"}, "threshold=1"),
        (
            {"secagg": "on(bits=16)"},
            "a client with one example to 16; raise bits, or lower max_examples or clip",
        ),
        ({"secagg": "on(max_examples=1000000000000)"}, "raise bits, or lower max_examples or clip"),
        ({"secagg": "on", "clients": 2}, "a round has 2 of 2 clients"),
        ({"secagg": "on", "clients": 10, "participation": 0.2}, "a round has 2 of 10 clients"),
        (
            {"secagg": "on", "clients": 300_000},
            "300000 clients x bits=40 could overflow the 53 bits of a sum; lower bits to 34",
        ),
        (
            {"secagg": "on", "validation": 0.1},
            "validation=0.1 would show the server each client's loss",
        ),
        ({"secagg": "on", "diagnostics": True}, "diagnostics look at single clients"),
    ],
)
def test_refusals(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure(settings)


def test_all_refusals_at_once() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"secagg": "on", "clients": 2, "validation": 0.1, "diagnostics": True})
    assert len(refusal.value.problems) == 3


@pytest.mark.parametrize(
    ("clients", "shares", "threshold"),
    [
        (3, 3, 2),
        (4, 4, 3),
        (5, 5, 4),
        (10, 10, 7),
        (50, 50, 34),
        (64, 64, 43),
        (65, 51, 39),
        (200, 79, 60),
        (1000, 227, 171),
    ],
)
def test_the_plan_of_a_round(clients: int, shares: int, threshold: int) -> None:
    """More than half of the shares, and never all: one client may always be lost."""
    plan = SecAggOn().key_plan(clients)
    assert (plan.shares, plan.threshold) == (shares, threshold)
    assert plan.shares / 2 < plan.threshold < plan.shares


def test_the_table_of_what_a_round_survives() -> None:
    """docs/security.md: 2t > n + c, and whoever stays is at least t and at least `least`."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    rows = {
        name: [int(cell) for cell in text.split(f"| {name} |")[1].split("\n")[0].split("|")[:-1]]
        for name in (
            "clients per round (n)",
            "shares that open a key (t)",
            "may be lost while training",
            "may help a dishonest server (c)",
        )
    }
    assert len(rows["clients per round (n)"]) == 7
    for clients, opening, lost, helpers in zip(*rows.values(), strict=True):
        secagg = SecAggOn(neighbour_share=1.0)
        plan, least = secagg.key_plan(clients), secagg.least(clients)
        assert opening == plan.threshold
        assert lost == clients - max(plan.threshold, least)
        assert helpers == 2 * plan.threshold - clients - 1


def test_a_part_of_the_clients_as_neighbours_is_odd_and_never_too_few() -> None:
    """2 ceil(log2 50) + 1 = 13."""
    assert SecAggOn(neighbour_share=0.5).key_plan(50).shares == 25
    assert SecAggOn(neighbour_share=0.48).key_plan(50).shares == 25
    assert SecAggOn(neighbour_share=0.01).key_plan(50).shares == 13
    assert SecAggOn(neighbour_share=0.01).key_plan(5).shares == 5
    assert SecAggOn(threshold=0.99).key_plan(10).threshold == 9
    assert SecAggOn(neighbour_share=1.0).key_plan(100) == KeyPlan(100, 67)
    assert SecAggOn(threshold=0.8).key_plan(100) == KeyPlan(51, 41)


def test_more_than_half_of_a_round_must_be_there() -> None:
    assert [SecAggOn().least(drawn) for drawn in (3, 4, 5, 6, 100)] == [3, 3, 3, 4, 51]


def test_the_budget_is_the_number_of_digits_of_the_largest_sum() -> None:
    secagg = SecAggOn()
    for clients in (3, 10, 1000, 2**17):
        largest = clients * 2**secagg.bits
        assert 2 ** (secagg.needed_bits(clients) - 1) <= largest < 2 ** secagg.needed_bits(clients)
    assert "10 clients x 40 bits need 44 of 53" in secagg.budget(10)


class Curious(Method):
    """A declaration whose server half looks at clients one by one."""

    name: ClassVar[str] = "curious"
    title: ClassVar[str] = ""
    authors: ClassVar[str] = ""
    link: ClassVar[str] = ""
    up: ClassVar[tuple[Section, ...]] = (Section("counts", weighting=None),)
    summable_instead: ClassVar[str] = "write curious(blind=True)"


class Vague(Curious):
    """A declaration that does not say what its section holds."""

    up: ClassVar[tuple[Section, ...]] = (Section("counts", holds=None),)


def test_a_section_without_a_shape_is_refused() -> None:
    assert "sends 'counts' without declaring the shape" in str(why_not(Vague()))


def test_a_section_that_must_be_seen_alone_is_refused_with_the_way_out() -> None:
    reason = why_not(Curious())
    assert reason is not None
    assert "curious needs each client's 'counts' one by one" in reason
    assert reason.endswith("write curious(blind=True)")
