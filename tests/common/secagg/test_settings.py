"""The keys of --secagg, the bit budget, and what is refused before the start."""

from pathlib import Path
from typing import ClassVar

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import Method, Section
from fedmirage.common.secagg.settings import SecAggFlower, SecAggOff, SecAggOn, why_not
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
            {"secagg": "on(bits=48)", "clients": 40},
            "40 clients x bits=48 could overflow the 53 bits of a sum; lower bits to 47",
        ),
        (
            {"secagg": "on", "clients": 1000},
            "at most 300 are allowed, so lower participation to 0.3",
        ),
        ({"secagg": "on(neighbour_share=0.5)"}, "neighbour_share"),
        ({"secagg": "flower(num_shares=1.5)"}, "num_shares=1.5: write a fraction up to 1, or a"),
        ({"secagg": "flower(modulus_range=1000)"}, "write a power of two above quantization_range"),
        (
            {"secagg": "flower", "clients": 1025},
            "1025 clients x quantization_range=4194304 could overflow modulus_range",
        ),
        ({"secagg": "flower", "validation": 0.1}, "validation=0.1 would show the server"),
        ({"secagg": "flower", "diagnostics": True}, "diagnostics look at single clients"),
        ({"secagg": "flower", "clients": 2}, "a round has 2 of 2 clients"),
        (
            {"secagg": "flower", "dp": "central(clip=1, noise=1)"},
            "flower cannot carry the noise and the bounds of dp",
        ),
        (
            {"secagg": "flower", "methods": "scaffold"},
            "scaffold sends 'control-delta' beside the model, .*; write secagg='on'",
        ),
        ({"secagg": "flower", "methods": "fedgen"}, "fedgen needs each client's"),
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


def test_flowers_protocol_says_what_it_lacks() -> None:
    config = configure({"secagg": "flower", "methods": "fedcog"})
    assert isinstance(config.secagg_params, SecAggFlower)
    (caution,) = [caution for caution in config.cautions if "secagg=flower" in caution]
    for gap in ("trusts the server", "32 bits", "number of examples is sent in clear"):
        assert gap in caution


def test_all_refusals_at_once() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"secagg": "on", "clients": 2, "validation": 0.1, "diagnostics": True})
    assert len(refusal.value.problems) == 3


@pytest.mark.parametrize(
    ("drawn", "quorum", "losses", "accomplices"),
    [
        (3, 3, 0, 1),
        (4, 3, 1, 1),
        (5, 4, 1, 2),
        (6, 5, 1, 3),
        (10, 7, 3, 3),
        (50, 34, 16, 17),
        (100, 67, 33, 33),
        (300, 201, 99, 101),
    ],
)
def test_what_a_round_survives(drawn: int, quorum: int, losses: int, accomplices: int) -> None:
    secagg = SecAggOn()
    assert secagg.quorum(drawn) == quorum > drawn / 2
    assert (secagg.losses(drawn), secagg.accomplices(drawn)) == (losses, accomplices)


def test_the_table_of_what_a_round_survives() -> None:
    """docs/security.md says what the code computes."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    table = text.partition("| clients drawn for a round |")[2].partition("\n\n")[0]
    found = [[*map(int, line.strip("|").split("|"))] for line in table.splitlines()[2:]]
    assert [row[0] for row in found] == [3, 4, 5, 6, 10, 50, 100, 300]
    for drawn, quorum, accomplices, losses in found:
        secagg = SecAggOn()
        expected = (secagg.quorum(drawn), secagg.accomplices(drawn), secagg.losses(drawn))
        assert (quorum, accomplices, losses) == expected


@pytest.mark.parametrize("threshold", [0.51, 0.67, 0.9, 0.99])
def test_two_groups_never_open_both_masks(threshold: float) -> None:
    """With the promised accomplices, two groups of honest clients would need more than there are;
    and every sum has two honest clients."""
    secagg = SecAggOn(threshold=threshold)
    for drawn in range(3, 301):
        quorum, helpers = secagg.quorum(drawn), secagg.accomplices(drawn)
        assert helpers >= 0
        assert 2 * (quorum - helpers) > drawn - helpers
        assert quorum - helpers >= 2
        assert quorum <= drawn


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
