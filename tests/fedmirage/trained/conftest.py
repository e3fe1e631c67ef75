"""A few short runs whose models are used."""

from pathlib import Path

import pytest

from tests.support.inprocess import run_in_process
from tests.support.trained import QUICK


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model file of a run on digits of 8x8 pixels."""
    folder = tmp_path_factory.mktemp("digits")
    run_in_process(folder, **QUICK, dataset="digits(size=8)")
    return folder / "model.safetensors"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model file of a run on rows of 13 numbers."""
    folder = tmp_path_factory.mktemp("rows")
    run_in_process(folder, **QUICK, dataset="wine")
    return folder / "model.safetensors"
