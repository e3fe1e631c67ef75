"""`import fedmirage`: the documented names, and a run as the docstring shows it."""

from pathlib import Path
from typing import Any

import pytest
import torch

import fedmirage
from common.settings.project import project
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL


def test_the_documented_names() -> None:
    names = {"METHODS", "__version__", "configure", "load", "load_model", "run"}
    assert set(fedmirage.__all__) >= names
    assert fedmirage.__version__ == project()["project"]["version"]
    assert "scaffold" in fedmirage.METHODS
    assert len(fedmirage.load("digits").classes) == 10


def test_a_runs_model_answers_with_names(tmp_path: Path) -> None:
    """As docs/running.md shows it."""
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    model, facts = fedmirage.load_model(tmp_path / "model.safetensors")
    images = torch.zeros(2, *facts.shape, dtype=torch.uint8)
    answers = model(facts.normalise(images))[:, : len(facts.classes)].argmax(1)
    names = [facts.classes[number] for number in answers]
    assert len(names) == 2
    assert set(names) <= set("0123456789")


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


def test_a_resumed_run_keeps_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    asked: list[Any] = []
    monkeypatch.setattr("experiments.launch.launch", lambda *given: asked.append(given) or {})
    fedmirage.run({"resume": str(tmp_path), "rounds": 2})
    ((config, _, folder, _),) = asked
    assert (config.dataset, config.clients, config.rounds) == (SMALL["dataset"], 4, 2)
    assert folder == tmp_path
