"""`import fedmirage`: the documented names; runs and comparisons as the docstring shows them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fedmirage
from fedmirage.common.errors import DataError
from fedmirage.common.settings.project import project
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, lines


def test_the_documented_names() -> None:
    for name in fedmirage.__all__:
        assert hasattr(fedmirage, name)
    assert fedmirage.__version__ == project()["project"]["version"]
    assert "scaffold" in fedmirage.METHODS
    assert len(fedmirage.load("digits").classes) == 10


def test_the_import_is_light() -> None:
    """Whoever only checks settings should not wait for what only frames and models need."""
    heavy = {"torch", "pandas", "matplotlib", "flwr", "sklearn", "IPython"}
    code = f"import sys, fedmirage; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_runs_model_answers_with_names(tmp_path: Path) -> None:
    """As docs/python.md shows it."""
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    model, facts = fedmirage.read_run(tmp_path).model()
    images = torch.zeros(2, *facts.shape, dtype=torch.uint8)
    answers = model(facts.normalise(images))[:, : len(facts.classes)].argmax(1)
    names = [facts.classes[number] for number in answers]
    assert len(names) == 2
    assert set(names) <= set("0123456789")


def test_run_places_its_results_and_returns_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def launch(config: Any, runtime: str, folder: Path, *_: Any, **more: Any) -> None:
        asked.append((config.clients, runtime, config.out, folder))
        run_in_process(folder, **{**SMALL, "rounds": 1})

    monkeypatch.setattr("fedmirage.launch.launch", launch)
    monkeypatch.chdir(tmp_path)
    run = fedmirage.run(clients=3, runtime="grpc", quiet=True)
    ((clients, runtime, out, folder),) = asked
    assert (clients, runtime, out) == (3, "grpc", str(folder))
    assert run.folder == folder
    assert folder.parent == tmp_path / "runs"
    assert run.summary["status"] == "finished"


def test_a_resumed_run_keeps_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    asked: list[Any] = []
    monkeypatch.setattr("fedmirage.launch.launch", lambda *given, **_: asked.append(given))
    fedmirage.run(resume=str(tmp_path), rounds=2)
    ((config, _, folder, *_),) = asked
    assert (config.dataset, config.clients, config.rounds) == (SMALL["dataset"], 4, 2)
    assert folder == tmp_path


def test_everything_that_is_wrong_is_raised_at_once(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"lr": "x", "clints": 3, "log": ["paper"], "out": str(tmp_path / "no")}
    with pytest.raises(fedmirage.ConfigurationError) as ran:
        fedmirage.run(methods="fedcgo", **wrong)
    with pytest.raises(fedmirage.ConfigurationError) as compared:
        fedmirage.compare("fedcgo", seeds=[0, 0], **wrong)
    for error, words in (ran, []), (compared, ["seeds='0,0'"]):
        for word in ("fedcgo", "lr='x'", "clints", "no logger is called 'paper'", *words):
            assert any(word in problem for problem in error.value.problems), word
    assert not (tmp_path / "no").exists()


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no results"):
        fedmirage.read_run(tmp_path)
    with pytest.raises(DataError, match=r"there is no comparison\.json"):
        fedmirage.read_comparison(tmp_path)


def test_a_run_has_a_row_per_round_and_one_per_client(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    run = fedmirage.read_run(tmp_path)
    recorded = lines(tmp_path)
    assert list(run.rounds.index) == [1, 2, 3]
    assert list(run.rounds["accuracy"]) == [line["accuracy"] for line in recorded]
    assert list(run.rounds["train.task"]) == [line["train"]["task"] for line in recorded]
    assert run.clients.shape[0] == 3 * SMALL["clients"]
    held = [client["examples"] for client in recorded[1]["clients"]]
    assert list(run.clients.loc[2, "examples"]) == held
    curves = run.plot("accuracy", "train.task").axes[0].get_lines()
    assert [list(curve.get_ydata()) for curve in curves] == [
        list(run.rounds[name]) for name in ("accuracy", "train.task")
    ]
    assert run.plot()._repr_png_().startswith(b"\x89PNG")
    assert "finished" in run._repr_html_()
    assert "<h1" in run.page().read_text()


def test_a_run_without_rounds_has_empty_frames(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    path = tmp_path / "results.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    run = fedmirage.read_run(tmp_path)
    assert run.rounds.empty
    assert run.clients.empty
    assert run.summary["status"] == "unfinished"
    assert "unfinished" in repr(run)
