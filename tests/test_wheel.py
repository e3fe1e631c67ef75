"""An installed copy, far from any checkout: defaults, presets and the bundle travel with it, it
tolerates neighbours, and every module has one name.

The wheel is built and unpacked with the packages of this environment; nothing is fetched.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fedmirage.runtimes.bundle import assemble
from fedmirage.settings.layers import PRESETS

ROOT = Path(__file__).parent.parent
PROGRAM = ("common", "client", "server")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this code, unpacked. It is built from a copy, because a build leaves folders."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    for package in (*PROGRAM, "fedmirage"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, source / package, symlinks=True, ignore=ignored)
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(place), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = place.glob("fedmirage-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "installed")
    return place / "installed"


SETTINGS = """{"dataset": "digits(limit=60, size=8)", "model": "mlp(hidden=8, layers=1)",
    "methods": "scaffold", "clients": 2, "rounds": 2, "local_steps": 1, "out": "result"}"""
TWO_ROUNDS = f"""
import fedmirage
fedmirage.run(runtime="inprocess", actors=1, quiet=True, **{SETTINGS})
"""
# In a bundle there is no runtime: Flower brings its own.
TWO_ROUNDS_OF_A_BUNDLE = f"""
from pathlib import Path
from flwr.app import Context, Message, RecordDict
from fedmirage.client.app import make_app
from fedmirage.common.settings.config import configure
from fedmirage.server.messages.replies import WaitingGrid
from fedmirage.server.run import run

class Grid(WaitingGrid):
    def get_node_ids(self):
        return [1, 2]
    def push_messages(self, messages):
        self.replies = {{}}
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = str(number)
            node = message.metadata.dst_node_id
            context = Context(1, node, {{"partition-id": node - 1}}, RecordDict(), {{}})
            self.replies[str(number)] = client(message, context)
        return list(self.replies)
    def pull_messages(self, numbers):
        return [self.replies.pop(number) for number in list(numbers) if number in self.replies]

Grid.__abstractmethods__ = frozenset()  # the server needs no more of Flower's interface
config = configure({SETTINGS})
client = make_app(config, Path("result", "memory"))
run(Grid(), config)
"""
# Every module whose file lies below a folder, by the file; links are followed.
NAMES = """
import os, sys
names = {{}}
for name, module in list(sys.modules.items()):
    file = os.path.realpath(getattr(module, "__file__", None) or os.devnull)
    ours = file.startswith({root!r} + os.sep) and "site-packages" not in file  # not .venv
    if ours and name != "__main__":
        names.setdefault(file, set()).add(name)
double = {{file: found for file, found in names.items() if len(found) > 1}}
assert not double, double
assert len(names) > 60, len(names)
assert all(name.split(".")[0] == "fedmirage" for found in names.values() for name in found), names
"""


def python(installed: Path, cwd: Path, *arguments: str) -> str:
    """What Python prints with the unpacked wheel first on its path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_adds_one_package(installed: Path) -> None:
    held = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert held == {"fedmirage"}
    packed = installed / "fedmirage" / "pyproject.toml"
    assert packed.read_text() == (ROOT / "pyproject.toml").read_text()


@pytest.mark.slow
def test_tables_of_the_papers_need_a_checkout(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedmirage.entry", "reproduce"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "not part of the installed package" in done.stderr


@pytest.mark.slow
def test_defaults_presets_and_the_bundle_are_found(installed: Path, tmp_path: Path) -> None:
    code = f"""
import importlib, pathlib, sys
for name in {PROGRAM}:
    module = importlib.import_module("fedmirage." + name)
    assert pathlib.Path(module.__file__).is_relative_to({str(installed)!r})
import fedmirage
from fedmirage.runtimes.bundle import app_folder
from fedmirage.settings.layers import PRESETS, read_preset
print(fedmirage.__version__, fedmirage.configure().clients, *PRESETS)
print(fedmirage.configure(read_preset("fedcog-flair")).clients)
print(app_folder(pathlib.Path("app").absolute()))
"""
    from fedmirage import __version__, configure

    version, bundle = python(installed, tmp_path, "-c", code).splitlines()[0::2]
    assert version.split() == [__version__, str(configure().clients), *PRESETS]
    assert Path(bundle) == tmp_path / "app"
    assert {path.name for path in Path(bundle).iterdir()} == {
        "pyproject.toml",
        "common",
        "client",
        "server",
        "fedmirage",
    }
    assert [path.name for path in (tmp_path / "app" / "fedmirage").iterdir()] == ["__init__.py"]
    # In the bundle, as Flower unpacks it, the file beside the packages counts.
    where = "from fedmirage.common.settings.project import PROJECT_FILE; print(PROJECT_FILE)"
    assert python(tmp_path / "app", tmp_path, "-c", where).strip() == f"{bundle}/pyproject.toml"


@pytest.mark.slow
def test_it_runs_beside_folders_of_the_same_names(installed: Path, tmp_path: Path) -> None:
    """A user's own `common`, `server` and `experiments` stay what they are, and so do ours."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "__init__.py").write_text("MINE = True")
    for name in ("server", "experiments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.py").write_text("MINE = True")
    mine = "import common, server.notes, experiments.notes\n"
    check = "assert common.MINE and server.notes.MINE and experiments.notes.MINE"
    script = tmp_path / "script.py"
    script.write_text(mine + TWO_ROUNDS + NAMES.format(root=str(installed.resolve())) + check)
    python(installed, tmp_path, str(script))
    assert (tmp_path / "result" / "model.safetensors").exists()


def test_no_file_of_a_checkout_has_two_names(tmp_path: Path) -> None:
    """There, `common` could be imported as well as `fedmirage.common`."""
    code = TWO_ROUNDS + NAMES.format(root=str(ROOT.resolve()))
    python(ROOT, tmp_path, "-c", code)
    assert (tmp_path / "result" / "model.safetensors").exists()


def test_no_file_of_a_bundle_has_two_names(tmp_path: Path) -> None:
    """As Flower unpacks it: without links, and with its folder on Python's path."""
    bundle = assemble(tmp_path / "app")
    code = TWO_ROUNDS_OF_A_BUNDLE + NAMES.format(root=str(bundle.resolve()))
    python(bundle, tmp_path, "-c", code)
    assert (tmp_path / "result" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [[], ["--runtime", "grpc"]], ids=["usual", "grpc"])
def test_a_run_from_the_wheel(installed: Path, tmp_path: Path, runtime: list[str]) -> None:
    """Over gRPC, Flower gets a project folder that was put together for it."""
    settings = ["--rounds", "1", "--dataset", "digits(limit=300)", "--local-steps", "2"]
    command = ["-m", "fedmirage.entry", "run", *settings, *runtime, "--out", "result"]
    assert "finished after round 1" in python(installed, tmp_path, *command)
    assert (tmp_path / "result" / "model.safetensors").exists()


@pytest.mark.slow
def test_the_page_has_its_styles_and_programs_with_it(installed: Path, tmp_path: Path) -> None:
    code = "from pathlib import Path; from fedmirage.report.page import render;"
    code += "from fedmirage.report.data import gather;"
    page = python(installed, tmp_path, "-c", f"{code} print(render(gather([Path('.')])))")
    assert "function loadPlotly" in page
    assert "--tone-0:" in page
