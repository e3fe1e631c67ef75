"""FedSAM: the limit, a round by hand with one norm over two tensors, BatchNorm's statistics."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedmirage.client.methods.fedsam import frozen_statistics
from fedmirage.common.memory import Memory
from fedmirage.common.models.base import Model
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from tests.support.hand import open_round, settings, visit
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits, lines


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_without_a_radius_it_is_fedavg_bit_for_bit(tmp_path: Path, model: str) -> None:
    """It still evaluates everything twice.

    With BatchNorm, the bits are the same only if the first pass does not change the statistics.
    """
    run_in_process(tmp_path / "fedavg", **SMALL, model=model)
    run_in_process(tmp_path / "fedsam", **SMALL, model=model, methods="fedsam(rho=0)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedsam")


def product(a: float, v: float) -> Model:
    """y = v a x: two tensors of one number each."""
    model = Model(nn.Sequential(nn.Linear(1, 1, bias=False)), nn.Linear(1, 1, bias=False), 1)
    from_arrays(model, [np.array([[a]], np.float32), np.array([[v]], np.float32)])
    return model


def test_a_round_by_hand(tmp_path: Path) -> None:
    """y = v a with a = 4, v = 3, target 11, rho 1/2, lr 1/10.

    y - t = 1, so the gradient is (v, a) = (3, 4) and its norm, over both tensors, 5. The worst
    point nearby is (4, 3) + (3, 4) / 10 = (4.3, 3.4). There y - t = 14.62 - 11 = 3.62 and the
    gradient is 3.62 (3.4, 4.3) = (12.308, 15.566). The step starts from (4, 3): a = 4 - 1.2308 =
    2.7692, v = 3 - 1.5566 = 1.4434. With one norm per tensor, a would go up by 1/2.
    """
    model = product(4.0, 3.0)
    visit(
        open_round(
            model, [([[1.0]], [11.0])], settings("fedsam(rho=0.5)", lr=0.1), Memory(tmp_path, 1)
        )
    )
    np.testing.assert_allclose(
        np.concatenate(to_arrays(model)).ravel(), [2.7692, 1.4434], rtol=1e-6
    )


def test_a_zero_gradient_stays_where_it_is(tmp_path: Path) -> None:
    model = product(4.0, 3.0)
    visit(open_round(model, [([[1.0]], [12.0])], settings("fedsam"), Memory(tmp_path, 1)))
    assert np.concatenate(to_arrays(model)).ravel().tolist() == [4.0, 3.0]


def test_frozen_statistics_normalise_alike_and_stay() -> None:
    norm = nn.BatchNorm2d(3)
    images = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    with frozen_statistics(norm):
        frozen = norm(images)
    assert not norm.running_mean.any()
    assert norm.num_batches_tracked == 0
    assert torch.equal(frozen, norm(images))
    assert norm.running_mean.any()
    assert norm.num_batches_tracked == 1


def test_it_sharpens_the_terms_of_other_methods_too(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1}, methods="fedprox(mu=1), fedsam(rho=0.5)")
    (line,) = lines(tmp_path)
    assert set(line["train"]) == {"task", "proximal"}
