"""Loggers get every round once, whatever happens to the command; their faults are their own."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from fedmirage.follow import wanted
from fedmirage.follow.logger import Logger, Opening, find_problems, list_loggers
from fedmirage.follow.wanted import Following, Journal
from tests.support.commands import TINY, fedmirage
from tests.support.followed import add_rounds, begin


class Recorder(Logger):
    """Writes down what it is told."""

    told: ClassVar[list[Any]] = []

    def begin(self, opening: Opening) -> str:
        self.told.append(("begin", opening.logged, opening.identity))
        return "one"

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        self.told.append((number, metrics["accuracy"]))

    def end(self, summary: Mapping[str, Any]) -> None:
        self.told.append(("end", summary.get("status")))


@pytest.fixture(autouse=True)
def _forget() -> None:
    Recorder.told.clear()


def look(folder: Path) -> list[Any]:
    """Return what a new command tells the logger."""
    Recorder.told.clear()
    journal = Journal(folder, "recorder", Recorder)
    journal.look()
    journal.look()
    journal.close()
    return list(Recorder.told)


def test_a_run_that_goes_on_continues_its_log(tmp_path: Path) -> None:
    results = begin(tmp_path)
    add_rounds(results, 1, 2)
    results.finish("interrupted")
    first = [("begin", 0, ""), (1, 0.1), (2, 0.2), ("end", "interrupted")]
    assert look(tmp_path) == first
    assert look(tmp_path) == []
    results.forget_after(2)
    add_rounds(results, 3)
    assert look(tmp_path) == [("begin", 2, "one"), (3, 0.3), ("end", None)]
    results.finish("finished")
    assert look(tmp_path) == [("begin", 3, "one"), ("end", "finished")]


def test_rounds_that_were_taken_back_are_logged_again(tmp_path: Path) -> None:
    results = begin(tmp_path)
    add_rounds(results, 1, 2, 3)
    look(tmp_path)
    results.forget_after(1)
    journal = Journal(tmp_path, "recorder", Recorder)
    Recorder.told.clear()
    journal.look()
    add_rounds(results, 2, accuracy=0.5)
    journal.look()
    assert Recorder.told == [("begin", 1, "one"), (2, 0.7)]


def test_another_run_in_the_same_folder_has_a_log_of_its_own(tmp_path: Path) -> None:
    add_rounds(begin(tmp_path), 1)
    look(tmp_path)
    (tmp_path / "results.jsonl").unlink()
    add_rounds(begin(tmp_path, token="second"), 1)
    assert look(tmp_path)[0] == ("begin", 0, "")


class Faulty(Recorder):
    """Fails in round 2."""

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        super().log_round(number, metrics)
        if number == 2:
            raise RuntimeError("[the server] is gone")


def test_a_logger_that_fails_is_named_once_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "find_logger", {"faulty": Faulty, "good": Recorder}.get)
    console = Console(file=io.StringIO(), width=200)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        add_rounds(begin(folder), 1, 2, 3)
    with Following(["faulty", "good"], console) as follow:
        follow.add(folders)
    (said,) = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert said.startswith("log: faulty failed and is left out from now on: RuntimeError('[the ser")
    assert Recorder.told.count((3, 0.3)) == 2  # of the good one, of both runs


def test_a_logger_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    class Hanging(Recorder):
        def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
            threading.Event().wait(20)

    monkeypatch.setattr(wanted, "find_logger", lambda name: Hanging)
    monkeypatch.setattr(wanted, "PATIENCE", 0.2)
    add_rounds(begin(tmp_path), 1)
    console = Console(file=io.StringIO(), width=200)
    with Following(["hanging"], console) as follow:
        follow.add([tmp_path])
    assert "gave up waiting" in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_is_missing_is_refused_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list_loggers() == ["mlflow", "tensorboard", "wandb"]
    assert find_problems(["tensorboard"]) == []
    monkeypatch.setattr("fedmirage.follow.logger._is_installed", lambda module: False)
    unknown, *missing = find_problems(["tensorbord", "tensorboard", "wandb", "mlflow", "wandb"])
    assert unknown == "log: no logger is called 'tensorbord'; did you mean 'tensorboard'?"
    assert [text.rpartition("pip install ")[2] for text in missing] == [
        "'fedmirage[tensorboard]'",
        "'wandb'",
        "'mlflow'",
    ]


@pytest.mark.parametrize("command", ["run", "compare"])
def test_refusals_come_together_and_before_the_run(command: str, tmp_path: Path) -> None:
    arguments = (command, *TINY, "--log", "paper", "--lr", "x", "--out", str(tmp_path / "out"))
    done = fedmirage(*arguments)
    assert done.returncode == 1
    assert "no logger is called 'paper'" in done.stderr
    assert "lr='x'" in done.stderr
    assert not (tmp_path / "out").exists()
