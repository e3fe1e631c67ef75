"""A data folder of its own for every test, and runs without other processes."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.inprocess import run_in_process


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in an empty folder, with an empty data folder in it."""
    monkeypatch.setenv("FEDMIRAGE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `fedmirage.run` take place in the process of the test, which starts at once."""

    def launch(config: Any, runtime: str, folder: Path, *_: Any, **more: Any) -> None:
        settings = {key: value for key, value in config.flat().items() if key != "out"}
        run_in_process(folder, **settings)

    monkeypatch.setattr("fedmirage.launch.launch", launch)
