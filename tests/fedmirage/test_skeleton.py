"""`fedmirage new-method`: what it writes passes the test kit, in a folder of its own."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.runtimes.processes import environment
from fedmirage.skeleton import write_skeleton
from tests.support.commands import fedmirage
from tests.support.plugins import install_skeleton

ROOT = Path(__file__).parent.parent.parent


def run_its_tests(folder: Path, python: str, variables: dict[str, str], *more: str) -> str:
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def test_a_new_method_passes_the_kit_as_it_is(tmp_path: Path) -> None:
    """Registered by hand, since nothing may be installed here; two partners stand for all."""
    folder = install_skeleton("tilted-prior", tmp_path)
    variables = environment()
    variables["PYTHONPATH"] += os.pathsep + str(folder)
    chosen = "not another_method or scaffold or vhl or fedgen"
    said = run_its_tests(folder, sys.executable, variables, "-p", "no:xdist", "-k", chosen)
    assert "12 passed" in said or "11 passed, 1 skipped" in said  # torch 2.8 has no other device


@pytest.mark.slow
def test_a_new_method_passes_the_kit_where_it_is_installed(tmp_path: Path) -> None:
    """In an environment of its own, which sees the packages of this one."""
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = subprocess.check_output([python, "-c", where], text=True).strip()
    seen = [entry for entry in sys.path if entry.endswith("site-packages")]
    Path(target, "ours.pth").write_text("\n".join([str(ROOT), *seen]))
    write_skeleton("tilted-prior", tmp_path / "repository")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    quiet = ["--no-deps", "--no-index", "--no-build-isolation", "--target", target]
    subprocess.run([*pip, *quiet, str(tmp_path / "repository")], check=True)
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    said = run_its_tests(tmp_path / "repository", python, variables)
    assert "38 passed" in said or "37 passed, 1 skipped" in said


def test_the_command_writes_files_and_says_what_is_next(tmp_path: Path) -> None:
    done = fedmirage("new-method", "my-prior", "--folder", str(tmp_path / "one"))
    assert done.returncode == 0, done.stderr
    assert "fedmirage methods my-prior" in done.stdout
    files = sorted(path.relative_to(tmp_path / "one").as_posix() for path in tmp_path.rglob("*.*"))
    assert files == [
        *(f"fedmirage_my_prior/{name}.py" for name in ("__init__", "client", "server")),
        "pyproject.toml",
        "tests/test_my_prior.py",
    ]
    written = "".join(path.read_text() for path in tmp_path.rglob("*.*"))
    assert 'my-prior = "fedmirage_my_prior:MyPrior"' in written
    assert not {"my-method", "my_method", "MyMethod"} & set(written.replace('"', " ").split())


@pytest.mark.parametrize("name", ["", "My-Method", "a b", "1st", "x_y", "../up"])
def test_a_name_must_be_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no name for a method"):
        write_skeleton(name, tmp_path)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_skeleton("my-prior", tmp_path)
    with pytest.raises(ConfigurationError) as raised:
        write_skeleton("fedprox", tmp_path)
    assert raised.value.problems == [
        "there is already a method called 'fedprox'; choose another name",
        f"{tmp_path / 'pyproject.toml'} is already there; choose another --folder",
    ]
