"""Exact intervals of a share that was counted (Clopper and Pearson, 1934)."""

import math

HALVINGS = 50  # of an interval of shares: beyond them, doubles are equal


def bound_share(count: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return both ends of the interval of a share; each is wrong as often as (1 - level) / 2."""
    return _find_low(count, trials, level), 1 - _find_low(trials - count, trials, level)


def _find_low(count: int, trials: int, level: float) -> float:
    """Find the share with which so many or more are counted as rarely as (1 - level) / 2."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS if count else 0):
        middle = (low + high) / 2
        rare = reach(count, trials, middle) < (1 - level) / 2
        low, high = (middle, high) if rare else (low, middle)
    return low


def reach(count: int, trials: int, share: float) -> float:
    """Compute how probable it is that so many or more of the trials come true."""
    if not 0 < share < 1:
        return float(share > 0 or count == 0)
    yes, no = math.log(share), math.log1p(-share)
    whole = math.lgamma(trials + 1)
    logarithms = (
        whole
        - math.lgamma(number + 1)
        - math.lgamma(trials - number + 1)
        + number * yes
        + (trials - number) * no
        for number in range(count, trials + 1)
    )
    return min(1.0, math.fsum(map(math.exp, logarithms)))
