"""How much privacy a run has spent: epsilon at the requested delta, by Google's dp-accounting.

Two federations are neighbours if they have the same clients, but one client has other data. With
either data its update is within `clip`, so the sum of a round changes by at most 2 clip. The noise
on the sum has the standard deviation noise * clip, hence the multiplier noise / 2.

A round in which every available client takes part is a Gaussian release. The exact budget of n such
rounds is known: together they are one release with multiplier / sqrt(n). A draw of k out of n
clients, of a fixed size and without replacement, reveals less, since it may have missed the client.
Its Rényi divergence is bounded by Wang, Balle and Kasiviswanathan (AISTATS 2019). If k is a large
part of n, their bound exceeds that of a release without a draw, so the smaller of the two counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fedmirage.common.dp.accounting import compose_gaussians
from fedmirage.common.wire.metrics import CLIPPED

if TYPE_CHECKING:  # a command that only shows a budget need not wait for Flower or numpy
    import numpy as np
    import numpy.typing as npt
    from flwr.common import Scalar

EPSILON, DELTA = "dp.epsilon", "dp.delta"
Draw = tuple[int, int]  # the number of clients drawn, and the number present


def epsilon(multiplier: float, releases: Mapping[Draw, int], delta: float) -> float:
    """Compute epsilon, given the number of releases for each kind of draw."""
    if not sum(releases.values()):
        return 0.0
    if not multiplier:
        return math.inf
    whole = compose_gaussians([multiplier] * sum(releases.values()), delta)
    if all(drawn >= present for drawn, present in releases):
        return whole
    from dp_accounting import rdp  # it takes time to load

    orders, _ = divergences(multiplier, (1, 1))
    import numpy as np

    total = np.sum(
        [count * divergences(multiplier, draw)[1] for draw, count in releases.items()], axis=0
    )
    return min(whole, float(rdp.compute_epsilon(orders, total, delta)[0]))


@lru_cache(maxsize=64)
def divergences(
    multiplier: float, draw: Draw
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the orders, and the Rényi divergence of one release at each of them.

    A new draw takes a third of a second.
    """
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
    import numpy as np

    return accountants[0].orders, np.minimum.reduce([accountant.rdp for accountant in accountants])


def metrics(metrics: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return what a round's line says under "dp"; an infinite epsilon is written as null."""
    return {
        name.removeprefix("dp."): metrics[name]
        for name in (EPSILON, DELTA, CLIPPED)
        if name in metrics
    }


def spent(budget: Mapping[str, Any]) -> str:
    """Say in words how much is spent, given "dp" as in results.jsonl."""
    value = budget.get("epsilon")
    shown = "infinite" if value is None or math.isinf(value) else f"{value:.4g}"
    return f"epsilon {shown} at delta {budget['delta']:g}"
