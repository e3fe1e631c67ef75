"""Weights & Biases and MLflow, each as a fake with the documented interface that records calls.

Neither is a dependency, so that the tests cannot use them. Calls with arguments that the real
interface does not have fail here too.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fedmirage.follow.logger import Logger
from fedmirage.follow.loggers.mlflow import MlflowLogger
from fedmirage.follow.loggers.wandb import WandbLogger
from fedmirage.follow.wanted import Journal
from tests.support.followed import add_rounds, begin

Calls = list[tuple[Any, ...]]


def log(folder: Path, name: str, kind: type[Logger]) -> None:
    journal = Journal(folder, name, kind)
    journal.look()
    journal.close()


class FakeRun:
    """What wandb.init returns."""

    def __init__(self, calls: Calls, identity: str | None) -> None:
        self.calls, self.id = calls, identity or "new1"
        self.summary: dict[str, Any] = {}

    def define_metric(self, name: str, *, step_metric: str | None = None) -> None:
        self.calls.append(("define_metric", name, step_metric))

    def log(self, data: dict[str, Any], step: int | None = None) -> None:
        self.calls.append(("log", data["round"], data["accuracy"], step))

    def finish(self, exit_code: int | None = None) -> None:
        self.calls.append(("finish", exit_code, self.summary.get("status")))


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls: Calls = []

    def init(
        *,
        project: str,
        group: str,
        name: str,
        id: str | None,
        resume: str,
        reinit: str,
        dir: str,
        config: dict[str, Any],
        settings: Any,
    ) -> FakeRun:
        calls.append(("init", project, group, name, id, resume, reinit, config["methods"]))
        return FakeRun(calls, id)

    module = ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    module.Settings = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


def test_wandb_continues_a_run_by_its_id(tmp_path: Path, wandb: Calls) -> None:
    folder = tmp_path / "comparison" / "fedavg-seed0"
    results = begin(folder)
    add_rounds(results, 1)
    log(folder, "wandb", WandbLogger)
    add_rounds(results, 2)
    results.finish("finished")
    log(folder, "wandb", WandbLogger)
    opened = ("init", "fedmirage", "comparison", "fedavg-seed0")
    how = ("allow", "create_new", "fedavg")
    assert wandb == [
        (*opened, None, *how),
        ("define_metric", "*", "round"),
        ("log", 1, 0.1, None),
        ("finish", 1, None),
        (*opened, "new1", *how),
        ("define_metric", "*", "round"),
        ("log", 2, 0.2, None),
        ("finish", 0, "finished"),
    ]


class FakeClient:
    """MlflowClient, without a store."""

    calls: Calls

    def get_experiment_by_name(self, name: str) -> None:
        self.calls.append(("get_experiment_by_name", name))

    def create_experiment(self, name: str) -> str:
        self.calls.append(("create_experiment", name))
        return "7"

    def create_run(self, experiment_id: str, *, tags: dict[str, str], run_name: str) -> Any:
        self.calls.append(("create_run", experiment_id, run_name, tags))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def update_run(self, run_id: str, status: str) -> None:
        self.calls.append(("update_run", run_id, status))

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = ()) -> None:
        for param in params:
            assert isinstance(param.value, str)
        kept = [(one.key, one.value, one.step) for one in metrics if one.key == "accuracy"]
        assert all(isinstance(one.timestamp, int) for one in metrics)
        self.calls.append(("log_batch", run_id, len(params) > 0, kept))

    def log_dict(self, run_id: str, dictionary: dict[str, Any], artifact_file: str) -> None:
        self.calls.append(("log_dict", run_id, dictionary["status"], artifact_file))

    def set_terminated(self, run_id: str, status: str) -> None:
        self.calls.append(("set_terminated", run_id, status))


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Calls:
    def metric(key: str, value: float, timestamp: int, step: int) -> Any:
        return SimpleNamespace(key=key, value=value, timestamp=timestamp, step=step)

    def param(key: str, value: str) -> Any:
        return SimpleNamespace(key=key, value=value)

    FakeClient.calls = []
    module, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    module.MlflowClient = FakeClient  # type: ignore[attr-defined]
    entities.Metric, entities.Param = metric, param  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return FakeClient.calls


def test_mlflow_continues_a_run_by_its_id(tmp_path: Path, mlflow: Calls) -> None:
    folder = tmp_path / "comparison" / "fedavg-seed0"
    results = begin(folder)
    add_rounds(results, 1)
    log(folder, "mlflow", MlflowLogger)
    add_rounds(results, 2)
    results.finish("finished")
    log(folder, "mlflow", MlflowLogger)
    assert mlflow == [
        ("get_experiment_by_name", "fedmirage"),
        ("create_experiment", "fedmirage"),
        ("create_run", "7", "fedavg-seed0", {"group": "comparison"}),
        ("log_batch", "r1", True, []),
        ("log_batch", "r1", False, [("accuracy", 0.1, 1)]),
        ("set_terminated", "r1", "KILLED"),
        ("update_run", "r1", "RUNNING"),
        ("log_batch", "r1", False, [("accuracy", 0.2, 2)]),
        ("log_dict", "r1", "finished", "summary.json"),
        ("set_terminated", "r1", "FINISHED"),
    ]
