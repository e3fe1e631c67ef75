"""How much privacy a run has spent: epsilon at the delta that it asked for, by Google's
dp-accounting.

Neighbours are federations of the same clients, one of which has other data. Its update, within clip
before and after, moves the sum of a round by at most 2 clip; the noise on it has `noise` times
clip, hence the multiplier noise / 2.

Rounds in which everybody present took part are Gaussian releases, and of n of them the exact budget
is known: together they are one with multiplier / sqrt(n). A draw of k out of n, of a fixed size and
without replacement, says less (it may have missed the client); its Rényi divergence is bounded by
Wang, Balle and Kasiviswanathan (AISTATS 2019). The bound is above that of the undrawn release where
k is a large part of n, so the smaller of the two counts.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from common.wire.figures import CLIPPED

if TYPE_CHECKING:  # a command line that only shows a budget need not wait for Flower
    from flwr.common import Scalar

EPSILON, DELTA = "dp.epsilon", "dp.delta"
Draw = tuple[int, int]  # how many were drawn, out of how many


def epsilon(multiplier: float, releases: Mapping[Draw, int], delta: float) -> float:
    """Of so many releases of each kind of draw."""
    if not sum(releases.values()):
        return 0.0
    if not multiplier:
        return math.inf
    # 0.2 s that only the server of a private run should wait
    from dp_accounting import (
        get_epsilon_gaussian,
        rdp,
    )

    whole = float(get_epsilon_gaussian(multiplier / math.sqrt(sum(releases.values())), delta))
    if all(drawn >= present for drawn, present in releases):
        return whole
    orders, _ = divergences(multiplier, (1, 1))
    total = np.sum(
        [count * divergences(multiplier, draw)[1] for draw, count in releases.items()], axis=0
    )
    return min(whole, float(rdp.compute_epsilon(orders, total, delta)[0]))


@lru_cache(maxsize=64)
def divergences(
    multiplier: float, draw: Draw
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Orders, and at each the Rényi divergence that one release allows; a third of a second for a
    draw not seen before."""
    import dp_accounting
    from dp_accounting import rdp

    drawn, present = draw
    release = dp_accounting.GaussianDpEvent(multiplier)
    accountants = []
    for event in [release, dp_accounting.SampledWithoutReplacementDpEvent(present, drawn, release)][
        : 1 + (drawn < present)
    ]:
        accountant = rdp.RdpAccountant(
            neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
        )
        accountants.append(accountant.compose(event))
    return accountants[0].orders, np.minimum.reduce([accountant.rdp for accountant in accountants])


def figures(metrics: "Mapping[str, Scalar]") -> "dict[str, Scalar]":
    """What the line of a round says under "privacy"; an infinite epsilon is null there."""
    return {
        name.removeprefix("dp."): metrics[name]
        for name in (EPSILON, DELTA, CLIPPED)
        if name in metrics
    }


def spent(privacy: Mapping[str, Any]) -> str:
    """The budget in words; `privacy` as in results.jsonl."""
    value = privacy.get("epsilon")
    shown = "infinite" if value is None or math.isinf(value) else f"{value:.4g}"
    return f"epsilon {shown} at delta {privacy['delta']:g}"
