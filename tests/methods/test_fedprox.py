"""FedProx: the limit, a round by hand, and a norm that is squared."""

from pathlib import Path

import pytest

from tests.support.hand import Federation, linear_model, settings
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits, lines


def test_without_weight_it_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL)
    run_in_process(tmp_path / "fedprox", **SMALL, methods="fedprox(mu=0)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedprox")


def test_a_round_by_hand(tmp_path: Path) -> None:
    """Loss w^2/2, lr 1/2, mu 1, from w = 1.

    Step 1: gradient 1 + mu (1 - 1) = 1, so w = 1/2. Step 2: gradient 1/2 + mu (1/2 - 1) = 0, so w
    stays 1/2 (FedAvg: 1/4). The term was 0, then (1/2) (1/2)^2 = 1/8: 1/16 in the mean.
    """
    batch = ([[1.0]], [0.0])
    hand = Federation(tmp_path, settings("fedprox(mu=1)"), linear_model(1.0), [[batch, batch]])
    assert hand.run()[0].item() == 0.5
    assert hand.terms == [{"task": (1 / 2 + 1 / 8) / 2, "proximal": 1 / 16}]


def test_the_norm_is_squared(tmp_path: Path) -> None:
    """Loss w^2/2, lr 1/2, mu 1, from w = 4: w = 2, then the gradient is 2 + (2 - 4) = 0 and w stays
    2.

    An unsquared norm pulls with mu/2 wherever it is: 2 - (2 - 1/2) / 2 = 5/4.
    """
    batch = ([[1.0]], [0.0])
    hand = Federation(tmp_path, settings("fedprox(mu=1)"), linear_model(4.0), [[batch, batch]])
    assert hand.run()[0].item() == 2.0


def test_the_term_is_logged_by_name(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1}, methods="fedprox(mu=0.5)")
    (line,) = lines(tmp_path)
    assert line["train"]["proximal"] > 0


@pytest.mark.parametrize("mu", [-0.1, "high"])
def test_bad_weights_are_refused(tmp_path: Path, mu: object) -> None:
    with pytest.raises(Exception, match="mu"):
        settings(f"fedprox(mu={mu!r})")
