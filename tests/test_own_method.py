"""docs/own-method.md, executed as it is written, with a registration by hand instead of pip."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import command, wide
from tests.support.plugins import install_skeleton

PAGE = (Path(__file__).parent.parent / "docs" / "own-method.md").read_text()
FILE = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^fedmirage ((?:methods|run|compare) .*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where somebody follows the page, with the package installed."""
    folder = tmp_path_factory.mktemp("page")
    for name, code in FILE.findall(PAGE):
        (folder / name).write_text(code)
    install_skeleton("prior", folder / "fedmirage-prior")
    return folder


def execute(words: list[str], folder: Path) -> str:
    variables = wide()
    known = variables.get("PYTHONPATH", "")
    package = str(folder / "fedmirage-prior")
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [known, package]))
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=600, env=variables, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("words", COMMAND.findall(PAGE))
def test_a_command_of_the_page_works(words: str, folder: Path) -> None:
    said = execute(command(*shlex.split(words)), folder)
    for word, expected in {
        "methods": "weight of the term",
        "run": "final",
        "compare": "- FedAvg",
    }.items():
        assert not words.startswith(f"{word} ") or expected in said


def test_the_tests_of_the_page_pass(folder: Path) -> None:
    """Two partners stand for all."""
    chosen = ("-k", "not another_method or scaffold or fedcog", "-p", "no:xdist")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_calm.py"]
    said = execute([*words, *chosen], folder)
    assert "10 passed" in said or "9 passed, 1 skipped" in said  # torch 2.8 has no other device


def test_the_page_shows_what_new_method_writes(folder: Path) -> None:
    (entry,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert entry in (folder / "fedmirage-prior" / "pyproject.toml").read_text()
