"""`import fedmirage`: the documented names, and a run as the docstring shows it."""

from pathlib import Path
from typing import Any

import pytest

import fedmirage
from common.settings.project import project


def test_the_documented_names() -> None:
    assert set(fedmirage.__all__) >= {"METHODS", "__version__", "configure", "load", "run"}
    assert fedmirage.__version__ == project()["project"]["version"]
    assert "scaffold" in fedmirage.METHODS
    assert len(fedmirage.load("digits").classes) == 10


@pytest.mark.parametrize("settings", [{"clients": 3}, fedmirage.configure({"clients": 3})])
def test_run_places_its_results_and_returns_the_summary(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def launch(config: Any, runtime: str, folder: Path, *_: Any) -> dict[str, Any]:
        asked.append((config.clients, runtime, config.out, folder))
        return {"status": "finished"}

    monkeypatch.setattr("experiments.launch.launch", launch)
    monkeypatch.chdir(tmp_path)
    assert fedmirage.run(settings, runtime="grpc", quiet=True) == {"status": "finished"}
    ((clients, runtime, out, folder),) = asked
    assert (clients, runtime, out) == (3, "grpc", str(folder))
    assert folder.parent == tmp_path / "runs"
