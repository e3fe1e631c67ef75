"""FedAdam, FedYogi, FedAdagrad: two rounds of each by hand, the fixed point, the broadcast model as
reference, BatchNorm.

test_fedavgm.py has the resumed run.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.support.inprocess import run_in_process
from tests.support.rules import assert_buffers_are_averaged, one_round, reply, rule
from tests.support.runs import SMALL, lines

FAMILY = ["fedadam", "fedyogi", "fedadagrad"]


def test_fedadam_by_hand() -> None:
    """lr 1, beta1 = beta2 = 0.5, tau 1, so that v begins at 1; w = 0.

    Round 1: clients return 0 and 2, D = 1: m = 0.5, v = 0.5 * 1 + 0.5 * 1 = 1, w = 0 + 0.5 / (1 +
    1) = 0.25. Round 2: clients return 7.25, D = 7: m = 0.25 + 3.5 = 3.75, v = 0.5 * 1 + 0.5 * 49 =
    25, w = 0.25 + 3.75 / (5 + 1) = 0.875.
    """
    strategy = rule("fedadam(lr=1, beta1=0.5, beta2=0.5, tau=1)", 1)
    assert one_round(strategy, [[0]], reply([0]), reply([2])) == [[0.25]]
    assert one_round(strategy, [[0.25]], reply([7.25]), reply([7.25])) == [[0.875]]


def test_fedyogi_by_hand() -> None:
    """lr 3, beta1 = 0.5, beta2 = 0.25, tau 1, so that v begins at 1; w = 0.

    Round 1: D = 2, D^2 = 4 > v: v = 1 + 0.75 * 4 = 4, m = 1, w = 3 * 1 / (2 + 1) = 1. Round 2: D =
    2, D^2 = v: v stays 4, m = 0.5 + 1 = 1.5, w = 1 + 3 * 1.5 / 3 = 2.5. Round 3: D = 1, D^2 = 1 <
    v: v = 4 - 0.75 = 3.25, m = 0.75 + 0.5 = 1.25, w = 2.5 + 3.75 / (sqrt(3.25) + 1).
    """
    strategy = rule("fedyogi(lr=3, beta1=0.5, beta2=0.25, tau=1)", 1)
    assert one_round(strategy, [[0]], reply([2])) == [[1]]
    assert one_round(strategy, [[1]], reply([3])) == [[2.5]]
    ((last,),) = one_round(strategy, [[2.5]], reply([3.5]))
    assert last == pytest.approx(2.5 + 3.75 / (3.25**0.5 + 1), rel=1e-6)
    assert strategy.state.second[0].tolist() == [3.25]


def test_fedadagrad_by_hand() -> None:
    """lr 2, beta1 = 0, tau 3, so that v begins at 9; w = 0.

    Round 1: D = 4: v = 9 + 16 = 25, w = 2 * 4 / (5 + 3) = 1.
    Round 2: D = 12: v = 25 + 144 = 169, w = 1 + 2 * 12 / (13 + 3) = 2.5.
    """
    strategy = rule("fedadagrad(lr=2, tau=3)", 1)
    assert one_round(strategy, [[0]], reply([4])) == [[1]]
    assert one_round(strategy, [[1]], reply([13])) == [[2.5]]


@pytest.mark.parametrize("methods", FAMILY)
def test_where_all_return_what_they_got_nothing_moves(methods: str) -> None:
    assert one_round(rule(methods, 2), [[1.5, -2]], reply([1.5, -2]), reply([1.5, -2])) == [
        [1.5, -2]
    ]


@pytest.mark.parametrize("methods", FAMILY)
def test_the_reference_is_what_was_broadcast(methods: str) -> None:
    """The same D gives the same step wherever the model is: a rule that looks at its own last
    output would differ."""
    strategy = rule(methods, 1)
    one_round(strategy, [[0]], reply([1]))
    other = rule(methods, 1)
    one_round(other, [[0]], reply([1]))
    ((near,),) = one_round(strategy, [[0]], reply([1]))
    ((far,),) = one_round(other, [[64]], reply([65]))
    assert far - 64 == pytest.approx(near, abs=1e-5)


@pytest.mark.parametrize("methods", FAMILY)
def test_running_statistics_are_only_averaged(tmp_path: Path, methods: str) -> None:
    assert_buffers_are_averaged(tmp_path, methods)


def test_the_step_is_bounded_by_the_learning_rate(tmp_path: Path) -> None:
    """tau is 1e-3 and v begins at tau^2: a first step with tau = 1e-9 would be lr (1 - beta1) /
    sqrt(1 - beta2) for any D."""
    tiny = rule("fedadam(lr=0.01)", 2)
    ((small, smaller),) = one_round(tiny, [[0, 0]], reply([1e-4, 1e-6]))
    assert small < 0.01 * 0.1 * 1e-4 / 1e-3
    assert smaller == pytest.approx(small / 100, rel=1e-2)
    run_in_process(tmp_path, **SMALL, methods="fedadam")
    assert np.isfinite(lines(tmp_path)[-1]["loss"])
