"""The curve of an attack, by hand."""

import math

import pytest
import torch

from fedmirage.audit.roc import make_roc


def test_area_counts_pairs_and_half_of_ties() -> None:
    """3 beats both others, 2 beats one and ties with one, 1 beats one: 2 + 1.5 + 1 of 6 pairs."""
    roc = make_roc(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([2.0, 0.0]))
    assert roc.area == pytest.approx(4.5 / 6)


def test_interval_by_hand() -> None:
    """Members win shares 1, 0.75 and 0.5, whose variance is 1/16; others lose 1/2 and 1: 1/8."""
    roc = make_roc(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([2.0, 0.0]))
    assert roc.margin == pytest.approx(1.959964 * math.sqrt(1 / 16 / 3 + 1 / 8 / 2))


def test_members_found_at_few_false_positives() -> None:
    members = torch.cat((torch.full((30,), 9.0), torch.zeros(70)))
    others = torch.cat((torch.full((1,), 9.0), torch.zeros(99)))
    roc = make_roc(members, others)
    assert roc.found_at(0.01) == pytest.approx(0.3)  # one of a hundred others scores as high
    assert roc.found_at(0.001) is None
    assert make_roc(members, torch.zeros(100)).found_at(0.01) == pytest.approx(0.3)


def test_the_curve_ends_in_both_corners() -> None:
    roc = make_roc(torch.randn(50), torch.randn(40))
    assert (float(roc.false[0]), float(roc.true[0])) == (0, 0)
    assert (float(roc.false[-1]), float(roc.true[-1])) == (1, 1)
    assert roc.thin()[-1] == (1, 1)
