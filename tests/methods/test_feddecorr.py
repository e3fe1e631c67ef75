"""FedDecorr: the limit, a round by hand, batches of one."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from fedmirage.common.memory import Memory
from fedmirage.common.models.base import Model
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from tests.support.hand import open_round, settings, visit
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits, lines


def test_without_weight_it_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL)
    run_in_process(tmp_path / "feddecorr", **SMALL, methods="feddecorr(beta=0)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "feddecorr")


def test_a_round_by_hand(tmp_path: Path) -> None:
    """z = W x on the samples (1, 0), (-1, 0), (0, 1), (0, -1), whose two inputs are uncorrelated.

    With W = [[1, d], [b, c]] at d = 0, b = c = 1 the features have the correlation r = (b + d c) /
    sqrt((1 + d^2) (b^2 + c^2)), that is 1 / sqrt(2), and the term is (n - 1)^2 / n r^2 = (9/4)
    (1/2) = 9/8. With 2 r dr the derivatives of r^2 are 0 by the first weight (a scale), 2 r /
    sqrt(2) = 1 by d, 2 b c^2 / (b^2 + c^2)^2 = 1/2 by b, and -1/2 by c. The task has no gradient
    (output and target are 0), so a step with lr 1/2 and beta 1/10 changes W by -(9/4) / 20 =
    -0.1125 times those.
    """
    model = Model(nn.Sequential(nn.Linear(2, 2, bias=False)), nn.Linear(2, 1, bias=False), 2)
    from_arrays(model, [np.array([[1, 0], [1, 1]], np.float32), np.zeros((1, 2), np.float32)])
    batch = ([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [0.0] * 4)
    terms, _ = visit(
        open_round(model, [batch], settings("feddecorr(beta=0.1)"), Memory(tmp_path, 1))
    )
    assert terms["decorrelation"] == pytest.approx(0.1 * 9 / 8)
    np.testing.assert_allclose(
        to_arrays(model)[0], [[1, -0.1125], [1 - 0.05625, 1 + 0.05625]], rtol=1e-5, atol=1e-6
    )


def test_a_batch_of_one_adds_nothing(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **{**SMALL, "rounds": 1, "batch_size": 1})
    run_in_process(
        tmp_path / "feddecorr", **{**SMALL, "rounds": 1, "batch_size": 1}, methods="feddecorr"
    )
    assert lines(tmp_path / "feddecorr")[0]["train"]["decorrelation"] == 0
    assert_same_bits(tmp_path / "fedavg", tmp_path / "feddecorr")
