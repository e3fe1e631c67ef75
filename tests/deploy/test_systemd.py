"""The units of deploy/systemd: systemd accepts them, and the command line their commands."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from fedmirage.cli import app
from fedmirage.common.settings.project import ROOT
from fedmirage.node.checks import read_node_config
from fedmirage.runtimes.superlink import PROGRAMS

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
VARIABLES = {
    line.partition("=")[0]: line.partition("=")[2].strip("'")
    for line in (FOLDER / "fedmirage.env").read_text().splitlines()
    if line and not line.startswith("#")
}


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is missing (package systemd)"
)
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    """With the fedmirage of this environment in place of one in /opt, which must be there."""
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/fedmirage/bin", str(PROGRAMS)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        env={**os.environ, "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if unit.stem in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


def command_of(unit: Path) -> list[str]:
    """The words of its command, with the variables as systemd puts them in: each one word."""
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text().replace("\\\n", " "), re.MULTILINE)
    return [
        re.sub(r"\$\{(\w+)\}", lambda match: VARIABLES[match[1]], word)
        for word in shlex.split(line)
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_the_command_line_accepts_its_command(unit: Path) -> None:
    program, name, *rest = command_of(unit)
    assert program == "/opt/fedmirage/bin/fedmirage"
    assert f"fedmirage-{name}" == unit.stem
    given = typer.main.get_command(app).commands[name].make_context(name, rest).params  # type: ignore[attr-defined]
    assert "--insecure" not in rest
    if name == "supernode":
        assert given["name"] == "site-a"
        config = read_node_config(given["node_config"])
        assert config == {"partition-id": 0, "data": "/srv/pictures", "require": "secagg"}
    else:
        assert list(given["host"]) == ["fl.example.org"]


def test_there_is_a_unit_for_each_role() -> None:
    assert [unit.stem for unit in UNITS] == ["fedmirage-superlink", "fedmirage-supernode"]
