"""Recorded runs are small, name no machine, and say the same as the runs that they come from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.reproduce.everything import make_setting
from experiments.reproduce.pages import FILE, make_table, read_pages, replace_block, rewrite_pages
from experiments.reproduce.records import LARGEST, RESULTS, record_run, recorded_runs, shorten
from fedmirage.common.errors import ConfigurationError, DataError, FedmirageError
from fedmirage.records.lines import read_rounds
from fedmirage.server.record.results import FILE as RECORD

ROUND = {
    "kind": "round",
    "accuracy": 0.5,
    "clients": [{"partition": 0, "seconds": 1.0}, {"partition": 1, "seconds": 2.0}],
    "seconds": {"round": 0.123456789},
    "bytes_up": 1,
    "bytes_down": 1,
}


def write_run(folder: Path, accuracies: list[float], seed: int = 0, **config: Any) -> Path:
    """Write what a run of these accuracies leaves; it may begin after another one's rounds."""
    first = int(str(config.get("warm-start", "")).rpartition("@")[2] or 0) + 1
    settings = {"kind": "config", "seed": seed, "methods": "fedavg", "clients": 2, "warm-start": ""}
    settings |= {"out": str(folder), "data-dir": "/somewhere/data", "rounds": 2, **config}
    rounds = [
        {**ROUND, "round": number, "accuracy": value}
        for number, value in enumerate(accuracies, start=first)
    ]
    end = {"kind": "summary", "status": "finished", "rounds": first + len(rounds) - 1}
    end |= {"bytes_up": 1, "bytes_down": 1}
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in [settings, *rounds, end])
    (folder / RECORD).write_text(text)
    return folder


def test_a_recorded_run_keeps_its_numbers_and_no_clients_and_no_places(tmp_path: Path) -> None:
    source = write_run(tmp_path / "runs/one", [0.1, 0.2])
    with pytest.raises(FedmirageError, match="--results names"):
        record_run(source, "first", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    path = record_run(source, "first", tmp_path / "docs")
    (settings,) = recorded_runs(tmp_path / "docs").values()
    assert (settings["out"], settings["data-dir"], settings["clients"]) == ("first", "", 2)
    kept = read_rounds(path.parent)
    assert [line["accuracy"] for line in kept] == [0.1, 0.2]
    assert kept[0]["client_seconds"] == 1.5
    assert kept[0]["seconds"]["round"] == 0.123457
    assert "clients" not in kept[0]
    assert str(tmp_path) not in path.read_text()
    again = record_run(path.parent, "first-again", tmp_path / "docs")  # it has no clients any more
    assert read_rounds(again.parent) == kept


def test_a_run_that_began_with_anothers_rounds_needs_that_one(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    first = write_run(tmp_path / "runs/one", [0.1, 0.2])
    second = write_run(tmp_path / "runs/two", [0.9], **{"warm-start": f"{first}@1"})
    with pytest.raises(FedmirageError, match="took rounds over from one; record that run first"):
        record_run(second, "two", docs)
    record_run(first, "one", docs)
    path = record_run(second, "two", docs)
    assert [line["accuracy"] for line in read_rounds(path.parent)] == [0.1, 0.9]


def test_what_is_no_finished_run_is_refused(tmp_path: Path) -> None:
    source = write_run(tmp_path / "one", [0.1])
    with pytest.raises(ConfigurationError, match=r"'\.\./one' is no name"):
        record_run(source, "../one", tmp_path)
    with pytest.raises(FedmirageError, match=r"there is no results.jsonl"):
        record_run(tmp_path / "none", "none", tmp_path)
    whole = (source / RECORD).read_text().splitlines()
    (source / RECORD).write_text("\n".join(whole[:-1]) + "\n")
    with pytest.raises(FedmirageError, match="is not finished"):
        record_run(source, "one", tmp_path)


def test_a_run_that_is_too_large_is_refused(tmp_path: Path) -> None:
    source = write_run(tmp_path / "one", [0.1] * 2000)
    with pytest.raises(DataError, match="a recorded run may have"):
        record_run(source, "one", tmp_path)


def test_six_digits_are_kept() -> None:
    assert shorten({"a": [1 / 3, 2, "x", True, None]}) == {"a": [0.333333, 2, "x", True, None]}


TABLES = """
[[table]]
name = "seeds"
page = "page.md"
head = "Rounds 2 to 3"
first_round = 2
rows = [
    { title = "one", paper = "64.11", runs = ["a0", "a1"] },
    { title = "two", runs = ["b0", "b1"] },
]

[[picture]]
file = "img/seeds.png"
rows = [{ title = "one", runs = ["a0", "a1"] }]
"""


def test_a_table_over_seeds_by_hand(tmp_path: Path) -> None:
    """Rounds 2 and 3 count. One: last rounds 20 and 40, mean 30, deviation 14.14; their means 15
    and 35. Two: 10 more for both seeds, so that the paired difference is 10 without any spread."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, seed, shift in (("a0", 0, 0.0), ("a1", 1, 0.2), ("b0", 0, 0.1), ("b1", 1, 0.3)):
        source = write_run(tmp_path / name, [0.9, 0.1 + shift, 0.2 + shift], seed)
        record_run(source, name, docs)
    (docs / FILE).write_text(TABLES)
    (docs / "page.md").write_text("before\n<!-- table: seeds -->\nold\n<!-- end -->\nafter\n")
    written = rewrite_pages(docs)
    assert [path.name for path in written] == ["page.md", "seeds.png"]
    assert written[1].stat().st_size > 1000
    text = (docs / "page.md").read_text()
    assert text.startswith("before\n<!-- table: seeds -->\n| Rounds 2 to 3 | Paper |")
    assert text.endswith("<!-- end -->\nafter\n")
    cells = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    one, two = (next(line for line in cells if name in line) for name in ("one", "two"))
    spreads = ["30.00 ±14.14", "30.00 ±14.14", "25.00 ±14.14", "-", "-"]
    assert one[2:-1] == ["64.11", "2", *spreads]
    assert two[2:-1] == [
        "-",
        "2",
        "40.00 ±14.14",
        "40.00 ±14.14",
        "35.00 ±14.14",
        "+10.00 ±0.00",
        "ahead",
    ]


def test_a_page_without_its_marks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(DataError, match="<!-- table: seeds -->"):
        replace_block(tmp_path / "page.md", "seeds", "")


@pytest.mark.parametrize("table", read_pages(RESULTS).table, ids=lambda table: table.name)
def test_the_pages_say_what_the_files_say(table: Any) -> None:
    """`fedmirage reproduce --tables` makes them anew."""
    path = RESULTS / table.page
    assert replace_block(path, table.name, make_table(table, RESULTS)) == path.read_text()


@pytest.mark.parametrize("setting", read_pages(RESULTS).setting, ids=lambda setting: setting.name)
def test_the_pages_have_whole_settings(setting: Any) -> None:
    path = RESULTS / setting.page
    made = make_setting(setting.run, RESULTS)
    assert replace_block(path, setting.name, made) == path.read_text()


def test_recorded_runs_are_small_and_finished() -> None:
    for folder, settings in recorded_runs().items():
        text = (folder / RECORD).read_text()
        assert len(text.encode()) < LARGEST
        assert json.loads(text.splitlines()[-1])["status"] == "finished"
        assert settings["out"] == folder.name
    for picture in read_pages(RESULTS).picture:
        assert (RESULTS / picture.file).exists()


def test_every_table_mark_has_its_entry() -> None:
    pages = read_pages(RESULTS)
    listed = {(table.page, table.name) for table in pages.table}
    listed |= {(setting.page, setting.name) for setting in pages.setting}
    marks = {
        (path.name, name)
        for path in RESULTS.glob("*.md")
        for name in re.findall(r"<!-- table: (.+?) -->", path.read_text())
        if name not in ("NAME", "everything", "open")
    }
    assert marks == listed
