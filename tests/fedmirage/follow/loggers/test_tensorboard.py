"""Event files, read back by TensorBoard's own reader."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedmirage.follow.loggers.tensorboard import TensorBoardLogger
from fedmirage.follow.wanted import Journal
from tests.support.commands import TINY, fedmirage
from tests.support.followed import add_rounds, begin
from tests.support.runs import lines


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return events


def log(folder: Path) -> None:
    journal = Journal(folder, "tensorboard", TensorBoardLogger)
    journal.look()
    journal.close()


def accuracies(folder: Path) -> list[tuple[int, float]]:
    return [(event.step, round(event.value, 3)) for event in read(folder).Scalars("accuracy")]


def test_a_round_that_is_done_again_replaces_the_old_one(tmp_path: Path) -> None:
    results = begin(tmp_path)
    add_rounds(results, 1, 2, 3)
    log(tmp_path)
    assert accuracies(tmp_path) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    results.forget_after(1)
    log(tmp_path)  # before the run goes on
    add_rounds(results, 2, accuracy=0.5)
    results.finish("finished")
    log(tmp_path)
    assert accuracies(tmp_path) == [(1, 0.1), (2, 0.7)]
    tags = read(tmp_path).Tags()
    assert {"train/task", "fedexp/step", "seconds/round"} <= set(tags["scalars"])
    assert set(tags["tensors"]) == {"config/text_summary", "summary/text_summary"}


def test_every_run_of_a_comparison_has_its_log(tmp_path: Path) -> None:
    arguments = ("compare", *TINY, "--methods", "fedprox", "--log", "tensorboard", "--no-report")
    done = fedmirage(*arguments, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    folders = [tmp_path / "fedavg-seed0", tmp_path / "fedprox-seed0"]
    for folder in folders:
        wanted = [(line["round"], round(line["accuracy"], 3)) for line in lines(folder)]
        assert accuracies(folder) == wanted
        assert len(wanted) == 2
    before = list(tmp_path.rglob("events.*"))
    fedmirage(*arguments, "--out", str(tmp_path))
    assert list(tmp_path.rglob("events.*")) == before  # nothing was new
