"""docs/tables.md, executed as it is written; only its run has fewer rounds and fewer neurons."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedmirage.cli import app
from fedmirage.node.checks import check_node_config
from tests.support.inprocess import run_in_process
from tests.support.runs import lines

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_page_from_the_file_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text())
    (made,) = (text for kind, text in blocks if kind == "python")
    (shown,) = (text for kind, text in blocks if kind == "toml")
    schema, run, node = (
        shlex.split(text.replace("\\\n", " "))
        for _, text in blocks
        if text.startswith("fedmirage ")
    )
    exec(compile(made, PAGE.name, "exec"), {})
    *words, redirect, target = schema[1:]
    assert redirect == ">"
    drafted = CliRunner().invoke(app, words)
    assert drafted.exit_code == 0, drafted.output
    assert shown in drafted.stdout
    Path(target).write_text(drafted.stdout)

    flags = dict(zip(run[2::2], run[3::2], strict=True))
    settings = {key.removeprefix("--"): value for key, value in flags.items()}
    small = {"rounds": 2, "model": "mlp(hidden=8)", "clients": int(settings.pop("clients"))}
    run_in_process(tmp_path / settings.pop("out"), **{**settings, **small})
    (line,) = lines(tmp_path / "runs" / "patients", "normalisation")
    assert [*line["columns"]] == ["age", "pressure"]
    assert line["columns"]["age"]["count"] == 480

    config = node[node.index("--node-config") + 1]
    for place in re.findall(r'"(/srv/[^"]+)"', config):
        config = config.replace(place, str(tmp_path / Path(place).name))
    assert check_node_config(config) == []
