"""A former name of a setting is answered with its present one, wherever it is written."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import RunConfig, configure, defaults, key_of, validate
from fedmirage.common.settings.renamed import RENAMED
from fedmirage.settings.layers import read_layers

SAID = "the setting 'local-passes' is now 'local-epochs'; write local-epochs=3"


@pytest.fixture(autouse=True)
def _passes_are_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENAMED, "local-passes", "local-epochs")
    monkeypatch.setitem(RENAMED, "thorough", "deterministic")


def test_in_a_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text("local-passes = 3\nrounds = 0\n")
    with pytest.raises(ConfigurationError) as refusal:
        configure(*read_layers(None, [tmp_path / "old.toml"]))
    assert SAID in refusal.value.problems
    assert len(refusal.value.problems) == 2  # with all the others


def test_in_flowers_run_config() -> None:
    with pytest.raises(ConfigurationError, match=SAID):
        validate({**defaults(), "local-passes": 3})


@pytest.mark.parametrize("call", [fedmirage.run, fedmirage.compare])
def test_as_a_keyword_in_python(call: object) -> None:
    with pytest.raises(ConfigurationError, match=SAID):
        call(local_passes=3)  # type: ignore[operator]


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (["--local-passes", "3"], "--local-passes is now --local-epochs"),
        (["--local-passes=3"], "--local-passes is now --local-epochs"),
        (["--no-thorough"], "--no-thorough is now --no-deterministic"),
        (["--local-pasess", "3"], "No such option"),
    ],
)
def test_as_a_flag(command: str, flag: list[str], said: str) -> None:
    found = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [command, *flag])
    assert found.exit_code == 2
    assert said in found.output


def test_present_names_exist_and_former_ones_do_not() -> None:
    names = {key_of(name) for name in RunConfig.model_fields}
    assert {*RENAMED.values()} <= names
    assert not {*RENAMED} & names
