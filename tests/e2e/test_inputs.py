"""Rows, signals and embeddings over gRPC, as real processes, have the bits of one process."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.runtimes.quick import line
from tests.support.commands import fedmirage
from tests.support.inprocess import run_in_process
from tests.support.inputs import INPUTS
from tests.support.runs import assert_same_bits

pytestmark = pytest.mark.slow
METHODS = {"rows": "fedcog", "signals": "vhl", "embeddings": "fedlgd"}


def flags(settings: dict[str, Any]) -> list[str]:
    """Write settings as flags."""
    return [
        text
        for key, value in settings.items()
        for text in (f"--{key.replace('_', '-')}", str(value))
    ]


@pytest.mark.parametrize("inputs", METHODS)
def test_the_same_bits_over_grpc(inputs: str, tmp_path: Path) -> None:
    settings = {**INPUTS[inputs], "clients": 2, "methods": line(METHODS[inputs])}
    run_in_process(tmp_path / "plain", **settings)
    out = str(tmp_path / "grpc")
    done = fedmirage("run", *flags(settings), "--runtime", "grpc", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_bits(tmp_path / "plain", tmp_path / "grpc")


@pytest.mark.parametrize("inputs", METHODS)
def test_they_run_under_secure_aggregation_over_grpc(inputs: str, tmp_path: Path) -> None:
    settings = {**INPUTS[inputs], "methods": line(METHODS[inputs]), "secagg": "on"}
    done = fedmirage("run", *flags(settings), "--runtime", "grpc", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "final accuracy" in done.stdout
