"""EMA: rounds by hand, and its state. What it shares with SWA is tested there."""

import pytest

from tests.support.released import released_after
from tests.support.rules import rule


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ema(decay=0.5)", [4.5, 3.0]),
        ("ema(decay=0.5, start=2)", [5.0, 4.0]),
        ("ema(decay=0.75)", [2.375, 1.75]),
        ("ema(decay=0)", [8.0, 4.0]),
    ],
)
def test_three_rounds_by_hand(line: str, expected: list[float]) -> None:
    """The global models are [0, 0], [2, 4] and [8, 4]; the first average is the first of them.

    decay 0.5: [0, 0], then [1, 2], then [1, 2] / 2 + [8, 4] / 2 = [4.5, 3]; from round 2 on: [2, 4]
    / 2 + [8, 4] / 2 = [5, 4]. decay 0.75: [0.5, 1], then 0.75 [0.5, 1] + 0.25 [8, 4] = [2.375,
    1.75].
    """
    assert released_after(rule(line, 2), [0, 0], [2, 4], [8, 4]) == expected


def test_the_average_is_kept_in_doubles() -> None:
    strategy = rule("ema(decay=0.9)", 1)
    released_after(strategy, [1.0], [2.0])
    assert strategy.state.mean[0].tolist() == [0.9 * 1.0 + (1 - 0.9) * 2.0]
