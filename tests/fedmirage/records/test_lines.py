"""What the reader of a run's record accepts, and what it names as damaged."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.client.app import make_app
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.settings.config import configure
from fedmirage.records.lines import find_summary, read_record, read_rounds, recorded_settings
from fedmirage.server.run import run
from tests.support.comparison import round_line, write_lines
from tests.support.followed import add_rounds, begin
from tests.support.inprocess import InProcessGrid

CONFIG = {"kind": "config", "methods": "fedavg", "seed": 0, "rounds": 3, "warm-start": ""}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("round", None, "line 2 is a round with round=None: input should be a valid integer"),
        ("round", "1", "line 2 is a round with round='1': input should be a valid integer"),
        ("bytes_up", [], "line 2 is a round with bytes_up=[]: input should be a valid integer"),
        ("seconds", {}, "line 2 is a round without 'seconds.round'; restore it from a copy"),
        ("seconds", 3.0, "line 2 is a round with seconds=3.0: input should be a valid dictionary;"),
        ("evaluation", None, "line 2 is a round with evaluation=None"),
        ("clients", {}, "line 2 is a round with clients={}: input should be a valid list"),
    ],
)
def test_a_line_that_lacks_what_readers_rely_on_is_damage(
    tmp_path: Path, key: str, value: Any, said: str
) -> None:
    line = {**round_line(1, 0.5), key: value}
    write_lines(tmp_path, [CONFIG, line])
    with pytest.raises(DataError) as error:
        read_record(tmp_path)
    assert f"{tmp_path / 'results.jsonl'} is damaged: {said}" in str(error.value)


def test_a_run_that_its_server_refuses_has_a_summary_and_nothing_else(tmp_path: Path) -> None:
    """As a ServerApp leaves it: whoever waits for the run learns the reason."""
    config = configure({"model": "nowhere_at_all:Net", "out": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="nowhere_at_all cannot be imported") as raised:
        run(InProcessGrid(make_app(), config.clients), config)
    summary = find_summary(tmp_path)
    assert (summary["status"], summary["reason"]) == ("failed", str(raised.value))
    assert recorded_settings(tmp_path) == {}
    with pytest.raises(DataError, match="the run failed before it began: model: nowhere_at_all"):
        read_record(tmp_path)


@pytest.mark.parametrize("key", ["methods", "seed", "rounds", "warm-start"])
def test_a_configuration_must_say_what_was_run(tmp_path: Path, key: str) -> None:
    write_lines(tmp_path, [{name: value for name, value in CONFIG.items() if name != key}])
    with pytest.raises(DataError, match=f"line 1 is a config without '{key}'"):
        read_record(tmp_path)


def test_rounds_are_taken_over_from_a_neighbour_also_after_both_were_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    add_rounds(begin(old / "first", out=str(old / "first")), 1, 2, 3)
    start = {"warm-start": f"{old / 'first'}@2"}
    add_rounds(begin(old / "second", out=str(old / "second"), **start), 3)
    old.rename(new)
    assert [line["round"] for line in read_rounds(new / "second")] == [1, 2, 3]


@pytest.mark.parametrize("name", ["same", "other"])
def test_a_run_elsewhere_is_no_neighbour_even_if_one_here_has_its_name(
    tmp_path: Path, name: str
) -> None:
    """A run that began with one of its own name elsewhere would otherwise be its own neighbour, and
    reading it would never end."""
    here = tmp_path / "here"
    add_rounds(begin(here / "other"), 1, 2)
    start = {"warm-start": f"{tmp_path}/elsewhere/{name}@2", "out": str(here / "same")}
    add_rounds(begin(here / "same", **start), 3)
    assert [line["round"] for line in read_rounds(here / "same")] == [3]
