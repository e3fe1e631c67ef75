"""The one table of everything has each recorded run in its setting, beside its references."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.reproduce.everything import (
    PAGE,
    list_everything,
    make_markdown,
    make_page,
    make_setting,
    name_settings,
)
from experiments.reproduce.pages import README, replace_block, write_everything
from experiments.reproduce.records import RESULTS, recorded_runs
from fedmirage.common.errors import DataError
from fedmirage.server.record.results import FILE

END = {"kind": "summary", "status": "finished", "rounds": 1, "bytes_up": 1, "bytes_down": 1}
RECIPE = "fedavgm(momentum=0.5), swa(length=2)"


def write(results: Path, name: str, accuracy: float, seed: int, **settings: Any) -> None:
    """Write a recorded run of one round."""
    config = {"kind": "config", "methods": "fedavg", "warm-start": "", "rounds": 1}
    config |= {"seed": seed, **settings}
    line = {"kind": "round", "round": 1, "accuracy": accuracy, "bytes_up": 1, "bytes_down": 1}
    line |= {"seconds": {"round": 1.0}}
    folder = results / "runs" / name
    folder.mkdir(parents=True)
    text = "".join(json.dumps(one) + "\n" for one in (config, line, END))
    (folder / FILE).write_text(text)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three seeds: FedAvg 50, FedCOG 60, its placebo 59 to 61, the recipe 70, another setting."""
    for seed in range(3):
        write(tmp_path, f"fedavg-s{seed}", 0.5, seed)
        write(tmp_path, f"fedcog-s{seed}", 0.6, seed, methods="fedcog")
        placebo = "fedcog(source='none')"
        write(tmp_path, f"placebo-s{seed}", 0.59 + 0.01 * seed, seed, methods=placebo)
        write(tmp_path, f"recipe-s{seed}", 0.7, seed, methods=RECIPE)
    write(tmp_path, "try-s0", 0.75, 0, methods=RECIPE, validation=0.1)
    write(tmp_path, "step-s0", 0.55, 0, lr=0.002)
    write(tmp_path, "other-s0", 0.9, 0, partition="iid")
    return tmp_path


def test_rows_stand_beside_fedavg_placebo_and_recipe(results: Path) -> None:
    """Seed 0 had a part in the choice of the recipe, so two seeds compare with it. FedCOG minus its
    placebo is 1, 0, -1: half of the interval is 4.303 / sqrt 3 = 2.48."""
    rows = {cells[1]: cells for cells in list_everything(results) if "iid" not in cells[0]}
    assert list(rows)[:2] == [f"`{RECIPE}`, validation 0.1", f"`{RECIPE}`"]
    assert rows["`fedavg`"][2:] == ["3 (0 to 2)", "50.00 ±0.00", "-", "-", "-20.00 ±0.00: behind"]
    fedcog = rows["`fedcog`"]
    assert fedcog[4] == "+10.00 ±0.00: ahead"
    assert fedcog[5] == "+0.00 ±2.48: undecided (sees ≥ 2.5; seeds +1)"
    assert rows[f"`{RECIPE}`"][4:] == ["+20.00 ±0.00: ahead", "-", "-"]
    assert rows["`fedavg`, lr 0.002"][2:5] == ["1 (0)", "55.00", "+5.00"]


def test_other_settings_are_not_mixed(results: Path) -> None:
    (other,) = [cells for cells in list_everything(results) if ", iid, " in cells[0]]
    assert other[1:5] == ["`fedavg`", "1 (0)", "90.00", "-"]
    one = {"dataset": "digits", "partition": "iid", "model": "mlp", "clients": 2, "rounds": 1}
    one |= {"participation": 0.5, "batch-size": 8}
    first, second = name_settings([one, {**one, "batch-size": 16}])
    assert first == "digits, iid, mlp, 2 clients, 50 % of them a round, 1 rounds"
    assert second == f"{first}, batch-size 16"


def test_one_setting_alone(results: Path) -> None:
    made = make_setting("other-s0", results)
    assert made.splitlines()[2:] == ["| `fedavg` | 1 (0) | 90.00 | - | - | - |"]
    everything = make_markdown(results)
    assert all(line.removeprefix("|") in everything for line in made.splitlines()[2:])
    with pytest.raises(DataError, match="there is no recorded run another"):
        make_setting("another", results)


def test_the_page_has_every_row_and_can_be_sorted(results: Path) -> None:
    (results / README).write_text("<!-- table: everything -->\n<!-- end -->\n")
    readme, page = write_everything(results)
    rows = readme.read_text().count("\n| ") - 2  # its head and the rule below
    assert rows == page.read_text().count('<th scope="row">') == len(list_everything(results))
    assert "addEventListener" in page.read_text()


def test_the_committed_table_and_page_say_what_the_files_say() -> None:
    """`fedmirage reproduce --tables` makes them anew."""
    text = (RESULTS / README).read_text()
    assert replace_block(RESULTS / README, "everything", make_markdown(RESULTS)) == text
    assert (RESULTS / PAGE).read_text() == make_page(RESULTS)
    counted = sum(int(cells[2].partition(" ")[0]) for cells in list_everything(RESULTS))
    assert counted == len(recorded_runs())
