"""`fedmirage reproduce`: what it lists, estimates, runs and answers."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.reproduce import tables
from experiments.reproduce.answer import read_paper
from experiments.reproduce.command import find_recorded, reproduce, show_tables
from experiments.reproduce.cost import START, Clock, estimate, inputs_of, steps_of
from experiments.reproduce.dispatch import check_flags
from experiments.reproduce.jobs import is_recorded, list_cells, make_work
from experiments.reproduce.tables import in_per_cent, read_metric, read_table
from fedmirage.commands.flags import reproduce_flags
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.config import configure
from tests.support.commands import fedmirage
from tests.support.runs import lines

TABLE = """
title = "a trial"
metric = "accuracy"
columns = [
    { name = "last" },
    { name = "reached", when = "reached", target = 1.0 },
    { name = "elsewhere", settings = { dataset = "cinic10" } },
]
rows = [
    { name = "fedavg", methods = "fedavg", paper = ["50.00 ± 1.00", "7", "8"] },
    { name = "fedcog", methods = "fedcog(start=3, samples=4, steps=1)", paper = ["60", "7", "8"] },
    { name = "fedx", missing = "FedX is not among the methods", paper = ["1", "2", "3"] },
]

[settings]
dataset = "digits(limit=300)"
clients = 4
rounds = 3
local-steps = 3
batch-size = 16

[small]
what = "one round less"
settings = { rounds = 2 }
arguments = { fedcog = { start = 2 } }
"""


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a table of small runs in the place of the papers'; return a folder for the runs."""
    folder = tmp_path / "tables" / "fedcog"
    folder.mkdir(parents=True)
    (folder / "trial.toml").write_text(TABLE, encoding="utf-8")
    monkeypatch.setattr(tables, "FOLDER", folder.parent)
    monkeypatch.setenv("FEDMIRAGE_DATA", str(tmp_path / "data"))
    return tmp_path / "runs"


def given(**more: Any) -> dict[str, Any]:
    return {**{name: value for name, (_, value) in reproduce_flags().items()}, **more}


def run(trial: Path, **more: Any) -> tuple[list[Any], str]:
    console = Console(file=io.StringIO(), width=200)
    answers = reproduce("fedcog/trial", given(out=trial, **more), console)
    return answers, console.file.getvalue()  # type: ignore[attr-defined]


def test_a_table_is_run_once_and_answered_beside_the_paper(trial: Path) -> None:
    """FedCOG takes over FedAvg's two rounds; what cannot be run says why."""
    files = {"csv": trial.parent / "a.csv", "json": trial.parent / "a.json"}
    answers, text = run(trial, scale="paper", **files)
    found = {(answer.row, answer.column): answer for answer in answers}
    (fedavg,) = trial.glob("fedavg-*-seed0")
    (fedcog,) = trial.glob("fedcog-*-seed0")
    accuracy = 100 * lines(fedavg)[-1]["accuracy"]
    assert found["fedavg", "last"].ours == pytest.approx(accuracy)
    assert found["fedavg", "last"].difference == pytest.approx(accuracy - 50)
    assert [line["round"] for line in lines(fedcog)] == [3]
    assert found["fedcog", "reached"].remark == "never reached 100 %"
    assert found["fedx", "last"].remark == "FedX is not among the methods"
    assert found["fedavg", "elsewhere"].remark == "no files of cinic10"
    assert not any(answer.failed for answer in answers)
    assert "2 cells are left out: the files of cinic10 are not here" in text
    assert "2 of 2 runs are left; estimated cost" in text
    assert "on an idle machine" in text
    head, *rows = files["csv"].read_text(encoding="utf-8").splitlines()
    names = "table,row,column,scale,ours,deviation,seeds,paper,paper_deviation,difference"
    assert head == f"{names},remark,failed"
    assert rows[0].startswith("fedcog/trial,fedavg,last,paper,")
    assert len(rows) == 9
    assert json.loads(files["json"].read_text())[0]["paper_deviation"] == 1.0
    _, again = run(trial, scale="paper")
    assert "0 of 2 runs are left" in again
    assert "2 of 2 runs were finished before" in again


def test_only_what_can_run_here_is_counted(trial: Path) -> None:
    """Of two methods and three columns, one column's data are elsewhere."""
    console = Console(file=io.StringIO(), width=200)
    show_tables(console)
    (row,) = [one for one in console.file.getvalue().splitlines() if "fedcog/trial" in one]  # type: ignore[attr-defined]
    assert row.split()[-4:] == ["3", "3", "4", "-"]


def test_an_estimate_runs_nothing_and_a_small_scale_says_so(trial: Path) -> None:
    answers, text = run(trial, estimate=True)
    assert answers == []
    assert not trial.exists()
    assert "small scale, not comparable with the paper: one round less" in text
    assert "ms" in text


def test_a_small_number_has_no_difference_to_the_papers(trial: Path) -> None:
    answers, text = run(trial, row=["fedavg"], column=["last"])
    assert answers[0].ours is not None
    assert answers[0].difference is None
    assert "SMALL SCALE: these numbers are not comparable" in text


def test_all_that_is_wrong_is_refused_at_once(trial: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        run(trial, scale="large", seeds="0,0", runtime="ray", row=["fedav"])
    assert len(caught.value.problems) == 4
    with pytest.raises(FedmirageError, match="nothing of fedcog/trial can be run here"):
        run(trial, row=["fedx"])


def test_the_command_lists_all_tables_and_names_the_nearest() -> None:
    done = fedmirage("reproduce")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in tables.list_tables())
    wrong = fedmirage("reproduce", "fedcog/tabel1")
    assert wrong.returncode == 1
    assert "did you mean 'fedcog/table1'" in wrong.stderr


def test_flags_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_flags(given(tables=True, table="fedcog/table1", status=True))
    assert len(caught.value.problems) == 2
    with pytest.raises(ConfigurationError, match="--row is for a table"):
        check_flags(given(row=["fedavg"]))


@pytest.mark.parametrize(
    ("when", "value"),
    [("last", 6.0), ("best", 7.0), ("last-five", 5.0), ("sum", 26.0), ("reached", 3.0)],
)
def test_a_figure_by_hand(when: Any, value: float) -> None:
    """Rounds 1 to 6 have 1, 2, 4, 7, 6, 6: the last five sum up to 25; 3 is reached in round 3."""
    numbers = (1, 2, 4, 7, 6, 6)
    found = [{"round": at, "a": {"b": number}} for at, number in enumerate(numbers, start=1)]
    assert read_metric(found, "a/b", when, 3.0) == value
    assert read_metric(found, "a/c", when, 3.0) is None


def test_only_shares_are_shown_in_per_cent() -> None:
    assert in_per_cent("accuracy", "best")
    assert not in_per_cent("accuracy", "reached")


def test_a_printed_number_is_read_with_its_deviation() -> None:
    assert read_paper("73.07 ± 0.08") == (73.07, 0.08)
    assert read_paper("Nan") == (None, None)


def test_cells_with_one_configuration_share_one_run(tmp_path: Path) -> None:
    """L.acc and G.acc of a row are two numbers of one run."""
    cells = [cell for cell in list_cells(read_table("fedmd-cg/table7")) if cell.row.name == "lt"]
    work = make_work(cells, "paper", [0, 1], tmp_path, {"download": True})
    assert len(cells) == 6
    assert len(work.jobs) == 6  # three columns, two seeds
    assert all(len(folders) == 2 for folders in work.folders.values())


def test_a_recorded_run_belongs_to_the_cells_with_its_settings() -> None:
    cell = next(iter(list_cells(read_table("fedcog/table1"))))
    flat = cell.configure("paper", {}).flat()
    recorded = {**flat, "seed": 3, "out": "x", "diagnostics": True, "server-threads": 2}
    assert find_recorded(cell, {Path("run"): recorded}) == [Path("run")]
    assert find_recorded(cell, {Path("run"): {**recorded, "lr": 0.5}}) == []
    begun = {**recorded, "methods": "fedcog", "warm-start": "fedavg@50"}
    assert is_recorded(configure(begun, {"warm-start": ""}), begun)
    assert not is_recorded(configure(begun, {"warm-start": ""}), {**begun, "warm-start": "x@60"})


def test_the_cost_by_hand() -> None:
    """Ten clients of 100 steps in 70 rounds are 70,000 steps; a test of 10,000 images is 156.25
    batches of 64, of a third of a step each, in 70 rounds."""
    settings = {"dataset": "fashion-mnist", "clients": 10, "rounds": 70, "local_steps": 100}
    config = configure(settings, {"batch_size": 64})
    tests = 70 * 10_000 / 64 / 3
    assert estimate(config, 0.01) == pytest.approx(START + 0.01 * (70_000 + tests))
    later = 0.01 * 20 / 70 * (70_000 + tests)
    assert estimate(config, 0.01, begun=50) == pytest.approx(START + later)
    twice = configure(settings, {"batch_size": 64, "methods": "fedsam"})
    assert estimate(twice, 0.01) == pytest.approx(START + 0.01 * (140_000 + tests))
    fedcog = configure(settings, {"batch_size": 64, "methods": "fedcog"})
    more = 20 * 10 * (100 * 4 * 4 / 3 + 100)  # generation of 4 batches by two networks, then KD
    assert estimate(fedcog, 0.01) == pytest.approx(START + 0.01 * (70_000 + tests + more))


def test_epochs_are_counted_in_steps() -> None:
    settings = {"dataset": "fashion-mnist", "clients": 80, "local_epochs": 2, "batch_size": 32}
    assert steps_of(configure(settings)) == 2 * 24  # 750 images are 23.4 batches
    distilled = configure(settings, {"methods": "distil(per_class=10)"})
    assert steps_of(distilled) == 2 * 4  # 100 images


def test_a_step_is_measured_once_for_each_network() -> None:
    clock = Clock()
    first = clock.step(configure({"dataset": "digits", "batch_size": 2}))
    assert first > 0
    assert clock.step(configure({"dataset": "digits", "batch_size": 2, "lr": 0.5})) == first
    assert len(clock.known) == 1


@pytest.mark.parametrize("name", tables.list_tables())
def test_the_size_of_every_data_set_is_known(name: str) -> None:
    for cell in list_cells(read_table(name)):
        if not cell.missing:
            config = cell.configure("paper", {})
            assert all(min(params.about().samples) > 0 for params in config.dataset_list)
            assert min(*inputs_of(config)[0], inputs_of(config)[1]) > 0
