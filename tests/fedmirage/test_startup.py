"""What a command loads before it does anything: seconds that a person waits."""

import json
import resource
import subprocess
import sys

import pytest

from fedmirage.runtimes.processes import environment

HEAVY = ("flwr", "matplotlib", "numpy", "ray", "scipy", "sklearn", "torch")
CODE = """
import contextlib, io, json, sys
from fedmirage.cli import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app({words!r})
loaded = [name for name in sys.modules if name.startswith("fedmirage.common.methods.")]
print(json.dumps([sorted(set(sys.modules) & set({heavy!r})), loaded]))
"""


def load_for(*words: str) -> tuple[list[str], list[str]]:
    """The heavy packages, and the declarations of methods, that a command loads."""
    code = CODE.format(words=list(words), heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    heavy, methods = json.loads(done.stdout.splitlines()[-1])
    return heavy, methods


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["compare", "--help"]])
def test_help_loads_nothing_heavy_and_no_method(words: list[str]) -> None:
    assert load_for(*words) == ([], [])


def processor_seconds(*arguments: str) -> float:
    """The fastest of three tries: other programs on the machine slow each of them down."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-P", *arguments]
        subprocess.run(command, env=environment(), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def test_help_takes_less_than_six_times_what_its_libraries_take() -> None:
    """A ratio, because a busy machine takes twice the seconds of an idle one."""
    libraries = processor_seconds("-c", "import pydantic, rich.console, typer")
    assert processor_seconds("-m", "fedmirage.entry", "--help") < 6 * libraries


def test_a_list_of_methods_loads_all_of_them() -> None:
    _, methods = load_for("methods")
    assert {"fedmirage.common.methods.moon", "fedmirage.common.methods.fedavg"} <= set(methods)
