"""A small federation for FedLGD."""

from typing import Any

from tests.support.pairs import BASE as PAIRS

BASE: dict[str, Any] = {**PAIRS, "eval_every": 1}
SHORT: dict[str, Any] = {
    "per_class": 2,
    "steps": 2,
    "real_per_class": 4,
    "refresh_steps": 2,
    "global_per_class": 1,
    "global_steps": 3,
    "gap": 2,
    "min_participants": 1,
}


def fedlgd(**more: Any) -> str:
    """The methods line with few steps, and with other parameters."""
    return f"fedlgd({', '.join(f'{key}={value!r}' for key, value in {**SHORT, **more}.items())})"
