"""A small federation for VHL."""

from typing import Any

BASE: dict[str, Any] = {
    "dataset": "digits(limit=60, size=8)",
    "clients": 2,
    "rounds": 2,
    "batch_size": 6,
    "local_steps": 3,
}


BASE |= {"model": "mlp(hidden=8, layers=1)", "lr": 0.1}
