"""`fedmirage report` as it is typed: the page, the files to take away, and what is refused."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedmirage.cli import app
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import configure
from fedmirage.comparison.advice import repeat_comparison, repeat_run
from fedmirage.comparison.outcome import read_outcome
from tests.support.comparison import plan_records, write_records

RUNNER = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(plan_records(tmp_path / "one"))
    return tmp_path / "one"


def test_the_page_goes_into_the_first_folder_unless_told_otherwise(folder: Path) -> None:
    shown = RUNNER.invoke(app, ["report", str(folder)])
    assert shown.exit_code == 0, shown.output
    assert f"page: {folder / 'report.html'}" in shown.output
    other = folder.parent / "new" / "page.html"
    assert RUNNER.invoke(app, ["report", str(folder), "--out", str(other)]).exit_code == 0
    assert other.read_text().startswith("<!doctype html>")


def test_numbers_can_be_taken_away(folder: Path) -> None:
    places = {kind: folder / f"a.{kind}" for kind in ("csv", "json", "latex")}
    flags = [text for kind, path in places.items() for text in (f"--{kind}", str(path))]
    shown = RUNNER.invoke(app, ["report", str(folder), *flags])
    assert shown.exit_code == 0, shown.output
    head, *rows = places["csv"].read_text().splitlines()
    assert head == (
        "group,methods,placebo,lr,schedule,seed,state,reason,round,accuracy,loss,"
        "balanced_accuracy,macro_f1,auc,samples_so_far,bytes_so_far,seconds_so_far,drift,epsilon"
    )
    last = f"{folder.name},fedavg,,0.05,constant,0,finished,,7,0.6,0.4,,,,3500.0,14000000,14.0,0.5,"
    assert rows[6] == last
    assert len(rows) == 6 * 3 * 7
    (group,) = json.loads(places["json"].read_text())["groups"]
    assert group["rows"][1]["to_baseline"]["verdict"] == "ahead"
    assert len(group["rounds"]) == len(rows)
    assert group["plots"]["drift"]["options"][0]["lines"][0]["mean"][0] == 0.5
    assert r"fedcog(start=2) & $71.33 \pm 1.53$" in places["latex"].read_text()


def test_everything_that_is_wrong_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = RUNNER.invoke(app, ["report", str(tmp_path / "nowhere"), str(tmp_path / "empty")])
    assert isinstance(refused.exception, ConfigurationError)
    first, second = refused.exception.problems
    assert first.startswith(f"there is no folder {tmp_path / 'nowhere'}")
    assert second.startswith(f"there are no results in {tmp_path / 'empty'}")


def test_a_damaged_record_is_named_and_alone_it_is_refused(folder: Path) -> None:
    bad = folder.parent / "bad"
    bad.mkdir()
    (bad / "results.jsonl").write_bytes(b'{"kind": "config"}\n\xff\n')
    shown = RUNNER.invoke(app, ["report", str(folder), str(bad)])
    assert shown.exit_code == 0
    assert f"{bad / 'results.jsonl'} is damaged" in shown.output
    assert "is damaged" in (folder / "report.html").read_text()
    refused = RUNNER.invoke(app, ["report", str(bad)])
    assert "is damaged" in str(refused.exception)


def test_the_command_of_a_run_gives_its_settings_again() -> None:
    """Only what differs from the defaults is written, and a shell reads it as it was."""
    config = configure(
        {
            "methods": "fedcog(source='none'), fedprox(mu=0.1)",
            "lr": 0.01,
            "local-steps": 3,
            "local-epochs": 0,
            "deterministic": False,
            "diagnostics": True,
            "out": "/elsewhere",
        }
    )
    words = shlex.split(repeat_run(config.flat()))
    assert words[:2] == ["fedmirage", "run"]
    assert "--out" not in words
    assert "--no-deterministic" in words
    assert "--clients" not in words
    flags = [word for word in words[2:] if word not in ("--no-deterministic", "--diagnostics")]
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    again = configure(
        {key.removeprefix("--"): value for key, value in given.items()},
        {"deterministic": False, "diagnostics": True, "out": "/elsewhere"},
    )
    assert again == config


def test_the_command_of_a_comparison_names_methods_without_their_placebos(folder: Path) -> None:
    words = shlex.split(repeat_comparison(read_outcome(folder)))
    given = [words[place + 1] for place, word in enumerate(words) if word == "--methods"]
    assert given == ["fedcog(start=2)", "vhl(width=8)", "lg-fedavg"]
    assert words[words.index("--seeds") + 1] == "0,1,2"
    assert "--no-controls" not in words
    assert "--server-threads" not in words
