"""A small federation for DynaFed."""

from pathlib import Path
from typing import Any

from tests.support.inprocess import run_in_process

QUICK: dict[str, Any] = {
    "segment": 2,
    "iterations": 3,
    "steps": 2,
    "per_class": 1,
    "epochs": 2,
    "max_loss": 100,
}


QUICK |= {"min_participants": 1, "lr": 0.01}


RUN: dict[str, Any] = {
    "dataset": "digits(limit=60, size=8)",
    "partition": "classes(per_client=2)",
    "clients": 4,
    "rounds": 4,
}


RUN |= {
    "model": "mlp(hidden=8, layers=1)",
    "local_epochs": 1,
    "batch_size": 6,
    "lr": 0.1,
    "server_threads": 1,
}


def line(**params: Any) -> str:
    return (
        "dynafed("
        + ", ".join(f"{name}={value!r}" for name, value in {**QUICK, **params}.items())
        + ")"
    )


def run(folder: Path, methods: str, intercept: Any = None, **settings: Any) -> Path:
    run_in_process(folder, intercept, **{**RUN, "methods": methods, **settings})
    return folder
