"""docs/own-network.md, executed as it is written: its files, its commands and its scripts."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import command, wide
from tests.support.runs import lines

PAGE = (Path(__file__).parent.parent / "docs" / "own-network.md").read_text()
FILE = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^fedmirage (run .*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where somebody follows the page; the first command has been typed."""
    folder = tmp_path_factory.mktemp("page")
    for name, code in FILE.findall(PAGE):
        (folder / name).write_text(code)
    execute(command(*shlex.split(COMMAND.findall(PAGE)[0])), folder)
    return folder


def execute(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=600, env=wide(), check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("words", COMMAND.findall(PAGE)[1:])
def test_a_command_of_the_page_works(words: str, folder: Path) -> None:
    if "timm:" in words and importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed; it is no dependency")
    assert "final accuracy" in execute(command(*shlex.split(words)), folder)


def test_the_scripts_of_the_page_work(folder: Path) -> None:
    assert [name for name, _ in FILE.findall(PAGE)] == ["nets.py", "train.py", "read.py"]
    said = execute([sys.executable, "train.py"], folder)
    assert "nets:TinyNet" in said
    assert "fedprox" in said
    assert "'9'" in execute([sys.executable, "read.py"], folder)
    (begun,) = lines(folder / "runs" / "tiny", "config")
    assert begun["resolved"]["sources"].keys() == {"nets:TinyNet"}
