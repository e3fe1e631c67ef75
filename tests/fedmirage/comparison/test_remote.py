"""Runs on a cluster are continued elsewhere if their host is lost, and not if they fail."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.comparison import runs
from fedmirage.comparison.plan import make_plan
from fedmirage.comparison.remote import LostHostError
from fedmirage.comparison.runs import Means, carry_out, choose_means
from tests.support.runs import SMALL


class Remote:
    """A cluster with room for two runs, which loses some of them."""

    last: "Remote"

    def __init__(self, *_: object, **__: object) -> None:
        self.actors, self.at_once = 3, 2
        self.room = threading.Semaphore(2)
        self.tried: Counter[str] = Counter()
        Remote.last = self

    def do(self, config: RunConfig, folder: Path, begin: Callable[[], None]) -> None:
        with self.room:
            begin()
            self.tried[config.methods] += 1
            if config.methods == "fedprox" and self.tried["fedprox"] < 3:
                raise LostHostError("its host is gone")
            if config.methods == "fedsam":
                raise LostHostError("its host is gone")
            if config.methods == "moon":
                raise FedmirageError("training diverged")


def test_lost_runs_are_tried_again_and_failed_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RemoteRuns", Remote)
    layers = [{**SMALL, "out": str(tmp_path)}]
    methods = ["fedprox", "fedsam", "moon"]
    plan = make_plan(layers, methods, "0", controls=False, tune=0, schedules=[], share=True)
    jobs = plan.runs({})
    means = choose_means(jobs, tmp_path, "auto", 0, False, "head:6379")
    assert means == Means("inprocess", 2, 3, False, "head:6379")
    assert str(means) == "2 runs at a time on the Ray cluster head:6379"
    failed = carry_out(jobs, means, tmp_path, Console(quiet=True))
    assert {folder.name.partition("-")[0]: why for folder, why in failed.items()} == {
        "fedsam": "lost 3 times on the cluster: its host is gone",
        "moon": "training diverged",
    }
    assert Remote.last.tried == {"fedavg": 1, "fedprox": 3, "fedsam": 3, "moon": 1}


def test_without_an_address_this_host_does_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = [{**SMALL, "out": str(tmp_path)}]
    plan = make_plan(layers, ["fedprox"], "0", controls=False, tune=0, schedules=[], share=True)
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert not choose_means(plan.runs({}), tmp_path, "auto", 1, False, "").ray_address
    with pytest.raises(ConfigurationError, match="is for --runtime simulation"):
        choose_means(plan.runs({}), tmp_path, "grpc", 1, False, "head:6379")
