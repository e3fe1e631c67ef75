"""`make` says which Pythons fit before it makes or installs anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedmirage.common.settings.project import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="there is no make")

# Runs the code after -c in this Python, which takes itself for another version.
OTHER = """#!/bin/sh
exec {real} -c 'import sys; sys.version_info = {version}; exec(sys.argv[1])' "$2"
"""
NAMES = ("python3.11", "python3.12", "python3.13", "python3")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `make setup` reads, and nothing that a mistake could remove."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "deploy" / "locks", tmp_path / "deploy" / "locks")
    (tmp_path / "bin").mkdir()
    return tmp_path


def pretend(program: Path, version: tuple[int, int]) -> Path:
    program.write_text(OTHER.format(real=sys.executable, version=version))
    program.chmod(0o755)
    return program


def refusal(checkout: Path, *settings: str) -> str:
    """What `make setup` says when it stops; nothing was made."""
    before = sorted(checkout.iterdir())
    # `make test PYTHON=...` hands its PYTHON to every make below it.
    kept = {key: os.environ[key] for key in os.environ.keys() - {"PYTHON", "MAKEFLAGS", "MFLAGS"}}
    done = subprocess.run(
        ["make", "setup", *settings],
        cwd=checkout,
        env={**kept, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert sorted(checkout.iterdir()) == before
    return done.stderr.splitlines()[0]


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_a_python_outside_the_range_is_named(checkout: Path, version: tuple[int, int]) -> None:
    python = pretend(checkout / "bin" / "other", version)
    named = "{}.{}".format(*version)
    assert refusal(checkout, f"PYTHON={python}") == (
        f"PYTHON={python} is Python {named}; fedmirage needs Python 3.11, 3.12 or 3.13."
    )


def test_something_that_is_no_python_is_named(checkout: Path) -> None:
    said = refusal(checkout, "PYTHON=no-such-program")
    assert said.startswith("PYTHON=no-such-program does not start (")
    assert "no-such-program: not found)" in said or "no-such-program: command not found)" in said
    assert said.endswith("the full path, such as PYTHON=/usr/bin/python3.11.")


def test_a_shim_without_a_python_behind_it_says_why_and_what_to_write(checkout: Path) -> None:
    """pyenv puts one on the path for every version that it has, and refuses most of them."""
    shim = checkout / "bin" / "python3.13"
    shim.write_text(
        "#!/bin/sh\necho 'pyenv: python3.13: command not found\n\nmore' >&2; exit 127\n"
    )
    shim.chmod(0o755)
    assert refusal(checkout, "PYTHON=python3.13") == (
        "PYTHON=python3.13 does not start (pyenv: python3.13: command not found); fedmirage needs"
        " Python 3.11, 3.12 or 3.13: name its program with the full path, such as"
        " PYTHON=/usr/bin/python3.11."
    )


def test_none_that_fits_on_the_path_says_how_to_name_one(checkout: Path) -> None:
    for name in NAMES:
        pretend(checkout / "bin" / name, (3, 14))
    assert refusal(checkout) == (
        "fedmirage needs Python 3.11, 3.12 or 3.13, and no python3 on the PATH is one of them: "
        "install one, or name it with PYTHON=/path/to/python3.11."
    )


def test_every_python_of_the_sentences_has_a_lock() -> None:
    locks = {file.stem for file in (ROOT / "deploy" / "locks").glob("*.lock")}
    assert locks == {"3.11", "3.12", "3.13"}
