"""The process from which tasks are forked: what it has loaded, and what tasks do not share.

The tasks here execute the text that stands where the address of a SuperNode would.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedmirage.node import tasks
from fedmirage.node.tasks import Starter
from tests.support.commands import kill, wait_until

SCRIPT = """
import sys
from fedmirage.node import template
template.answer = lambda own, text, _, parent: exec(text, {"own": own, "parent": parent})
template.main(*sys.argv[-2:])
"""


class Ground:
    """A starter whose tasks execute a text, and the folder into which they write."""

    def __init__(self, code: str, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.starter = Starter("77", code, "adaptive", forked=True)

    @property
    def template(self) -> "subprocess.Popen[bytes]":
        assert self.starter.template is not None
        return self.starter.template

    def run(self, text: str) -> str:
        """Let a task execute a text that sets `said`; return that, once the task has written it."""
        self.count += 1
        file = self.folder / str(self.count)
        write = f"open({f'{file}.part'!r}, 'w').write(str(said)); os.rename({f'{file}.part'!r}, "
        self.starter.start(f"import os, sys\n{text}\n{write}{str(file)!r})", "token")
        wait_until(file.exists, 120, text)
        return file.read_text()


@pytest.fixture(scope="module", params=["own", "any"])
def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "PYTHON", (sys.executable, "-c", SCRIPT))
        patch.setenv("PYTHONPATH", str(Path(tasks.__file__).parents[2]))
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job
        ground = Ground(request.param, tmp_path_factory.mktemp("tasks"))
        signal.signal(signal.SIGINT, before)
        yield ground
    assert ground.template.stdin is not None
    ground.template.stdin.close()
    assert ground.template.wait(60) == 0, "a template ends when its input does"


def test_a_task_lives_as_long_as_the_node_and_not_as_who_started_it(ground: Ground) -> None:
    assert ground.run("said = parent") == "77"


def test_the_template_has_neither_threads_of_grpc_nor_a_cuda_context(ground: Ground) -> None:
    said = ground.run("import torch; said = torch.cuda.is_initialized()")
    assert said == "False"
    place = Path(f"/proc/{ground.template.pid}")
    names = {path.read_text() for path in place.glob("task/*/comm")}
    assert names == {(place / "comm").read_text()}, "gRPC and CUDA give their threads names"
    links = [os.readlink(file) for file in (place / "fd").iterdir()]
    assert [link for link in links if link.startswith("socket:")] == []


def test_what_takes_long_is_loaded_and_the_code_of_a_run_is_not(ground: Ground) -> None:
    said = ground.run(
        "names = ('torch', 'torch._dynamo', 'torchvision.models', 'fedmirage.client.build')\n"
        "said = [name in sys.modules for name in names]"
    )
    own = ground.starter.way[0] == "own"
    assert said == str([True, True, True, own])


def test_a_node_remembers_which_code_it_has_loaded(ground: Ground) -> None:
    """Files that are replaced while the node runs are not the code that answers."""
    said = ground.run("said = own and len(own['client/train.py'])")
    assert said == ("64" if ground.starter.way[0] == "own" else "None")


def test_tasks_share_no_random_numbers(ground: Ground) -> None:
    text = (
        "import numpy, random, torch\n"
        "said = numpy.random.random(), random.random(), torch.initial_seed()"
    )
    first, second = (ground.run(text).strip("()").split(", ") for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert first[2] == second[2]  # as in two new processes


def test_a_task_is_like_a_new_process(ground: Ground) -> None:
    said = ground.run(
        "import signal, subprocess\n"
        "said = [signal.getsignal(signal.SIGINT) == signal.SIG_DFL, sys.stdin.read(),"
        " subprocess.run(['false']).returncode, os.getpid()]"
    )
    assert said.startswith("[True, '', 1, ")
    assert f" {ground.template.pid}]" not in said


@pytest.mark.parametrize(
    "end",
    [
        "raise ValueError('wrong')",
        "raise MemoryError",
        "sys.exit(3)",
        "os._exit(3)",
        "os.kill(os.getpid(), 9)",
        "os.abort()",
    ],
)
def test_a_task_that_ends_badly_concerns_no_other(ground: Ground, end: str) -> None:
    before = ground.template.pid
    number = int(ground.run("said = os.getpid()"))
    ground.starter.start(f"import os, sys\n{end}", "token")
    assert int(ground.run("said = os.getpid()")) != number
    assert ground.template.pid == before
    assert ground.template.poll() is None
    wait_until(lambda: not children(before), 30, "no task is left, not even as a zombie")


def children(parent: int) -> list[str]:
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return listed.split()


def test_a_template_that_was_killed_is_replaced(
    ground: Ground, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    first = ground.template
    kill(first.pid)
    first.wait()
    with caplog.at_level(logging.ERROR, "flwr"):
        ground.run("said = 'again'")
    assert ground.template.pid != first.pid
    assert "ended with code -9; another one is started" in caplog.text


def test_a_flower_that_takes_tasks_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "ClientAppExecPlugin", object)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # of pytest's own process
    with pytest.raises(SystemExit, match="has no launch_task, so nobody takes"):
        tasks.main("127.0.0.1:1", "1", "own", "forked", "adaptive")
