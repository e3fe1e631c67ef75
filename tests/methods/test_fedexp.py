"""FedExP: FedAvg where the step is 1, a round by hand, norms that leave BatchNorm and personal
weights out."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.inprocess import run_in_process
from tests.support.rules import (
    assert_buffers_are_averaged,
    buffers,
    initial,
    last_local_models,
    named,
    one_round,
    reply,
    rule,
)
from tests.support.runs import SMALL, assert_same_bits, lines, weights


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_with_a_step_of_one_it_is_fedavg_bit_for_bit(tmp_path: Path, model: str) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, model=model)
    run_in_process(tmp_path / "fedexp", **SMALL, model=model, methods="fedexp(eps=1e9)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedexp")
    assert [line["methods"] for line in lines(tmp_path / "fedexp")] == [{"fedexp.step": 1.0}] * 3


def test_one_round_by_hand() -> None:
    """w = [0, 0], clients return [3, 0] and [-1, 0], eps 0.25: D = [1, 0], mean of the squared
    norms (9 + 1) / 2 = 5.

    step = max(1, 5 / (2 (1 + 0.25))) = 2, w = 2 D = [2, 0]. With weights 3 and 1: D = [2, 0], mean
    (3 * 9 + 1) / 4 = 7, step = max(1, 7 / (2 * 4.25)) = 1, w = D = [2, 0].
    """
    first, second = reply([3, 0], squared_norm=9.0), reply([-1, 0], squared_norm=1.0)
    assert one_round(rule("fedexp(eps=0.25)", 2), [[0, 0]], first, second) == [[2, 0]]
    first.num_examples = 3
    strategy = rule("fedexp(eps=0.25)", 2)
    assert one_round(strategy, [[0, 0]], first, second) == [[2, 0]]
    assert strategy.length == 1
    uniform = rule("fedexp(eps=0.25)", 2, trainable=(True,), weighting="uniform")
    assert one_round(uniform, [[0, 0]], first, second) == [[2, 0]]
    assert uniform.length == 2


def test_the_reference_is_what_was_broadcast() -> None:
    """As above, from [10, 10] after another round: w = [10, 10] + 2 [1, 0]."""
    strategy = rule("fedexp(eps=0.25)", 2)
    one_round(strategy, [[0, 0]], reply([1, 0], squared_norm=1.0), reply([1, 0], squared_norm=1.0))
    replies = reply([13, 10], squared_norm=9.0), reply([9, 10], squared_norm=1.0)
    assert one_round(strategy, [[10, 10]], *replies) == [[12, 10]]


def test_running_statistics_are_only_averaged(tmp_path: Path) -> None:
    assert_buffers_are_averaged(tmp_path, "fedexp")


@pytest.mark.parametrize(("methods", "prefix"), [("fedexp", ""), ("fedper, fedexp", "features.")])
def test_the_step_against_brute_force(tmp_path: Path, methods: str, prefix: str) -> None:
    """Norms over shared, trainable weights only: no running statistics, no personal classifier."""
    settings = {**SMALL, "rounds": 1, "keep_models": "all"}
    config = run_in_process(tmp_path, **settings, model="lenet-bn", methods=methods)
    start, (models, shares) = initial(config), last_local_models(tmp_path)
    kept = [
        n
        for n, name in enumerate(named(config))
        if name.startswith(prefix) and n not in buffers(config)
    ]
    updates = [
        np.concatenate([(model[n] - start[n]).ravel().astype(np.float64) for n in kept])
        for model in models
    ]
    mean = sum(share * update for share, update in zip(shares, updates, strict=True))
    norms = sum(share * (update @ update) for share, update in zip(shares, updates, strict=True))
    step = max(1.0, norms / (2 * (mean @ mean + 1e-3)))
    assert step > 1
    assert lines(tmp_path)[0]["methods"]["fedexp.step"] == pytest.approx(step, rel=1e-5)
    shared = [n for n, name in enumerate(named(config)) if name.startswith(prefix)]
    found = np.concatenate([weights(tmp_path)[shared.index(n)].ravel() for n in kept])
    expected = np.concatenate([start[n].ravel() for n in kept]) + step * mean
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
