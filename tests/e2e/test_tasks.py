"""Tasks that are forked from a template, between real processes, beside tasks in a new Python."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.runtimes.bundle import assemble
from fedmirage.runtimes.grpc import Federation
from tests.support.commands import kill, processes, wait_until
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "dataset": "digits(limit=300)",
    "rounds": 1,
    "local_steps": 2,
    "batch_size": 16,
    "clients": 2,
}
CRASHES = """

import os, signal

class Crashing(ClientApp):
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, message, context):
        partition = int(context.node_config["partition-id"])
        if message.metadata.message_type.startswith("train"):
            if partition == 1:
                raise MemoryError
            if partition == 2:
                os._exit(3)
            if partition == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(message, context)

app = Crashing(app)
"""


def federate(folder: Path, app: Path, settings: dict[str, Any]) -> None:
    """A run whose nodes run the code that it brings."""
    (folder / "logs").mkdir(parents=True)
    with Federation(folder, folder / "logs", verbose=False, code="any") as federation:
        federation.start(configure(settings), folder / "memory")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedmirage.runtimes.superlink.app_folder", lambda _: app)
            run_id = federation.submit(configure(settings | {"out": str(folder / "run")}))
        federation.wait(run_id, folder / "run")


@pytest.mark.parametrize(("tasks", "waiting"), [("forked", "adaptive"), ("fresh", "flower")])
def test_crashed_clients_are_left_out_in_either_way(
    tmp_path: Path, tasks: str, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDMIRAGE_TASKS", tasks)
    monkeypatch.setenv("FEDMIRAGE_WAITING", waiting)
    app = assemble(tmp_path / "app")
    with (app / "client" / "app.py").open("a") as module:
        module.write(CRASHES)
    settings = {**SETTINGS, "clients": 4, "round_timeout": 90.0, "retries": 0}
    federate(tmp_path, app, settings)
    (only,) = lines(tmp_path / "run")
    assert [client["partition"] for client in only["clients"]] == [0]
    assert [entry["partition"] for entry in only["refused"]] == [1, 2, 3]


def test_the_code_that_a_run_brings_gives_the_same_bits(tmp_path: Path) -> None:
    """And it is the run's: a module that is not installed here is found."""
    app, proof = assemble(tmp_path / "app"), tmp_path / "executed"
    (app / "common" / "new.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    with (app / "client" / "app.py").open("a") as module:
        module.write("\nimport common.new\n")
    federate(tmp_path, app, SETTINGS)
    assert proof.exists()
    run_in_process(tmp_path / "plain", **SETTINGS)
    assert_same_bits(tmp_path / "plain", tmp_path / "run")


def test_nothing_outlives_a_node_that_was_killed(tmp_path: Path) -> None:
    """The node is killed while it trains: what takes its tasks, the template and the task end."""
    settings = {**SETTINGS, "clients": 1, "local_steps": 100_000}
    logs = tmp_path / "logs"
    logs.mkdir()
    with Federation(tmp_path, logs, verbose=False) as federation:
        federation.start(configure(settings), tmp_path / "memory")
        federation.submit(configure(settings | {"out": str(tmp_path / "run")}))
        template = "fedmirage.node.template"
        wait_until(lambda: len(processes(template)) >= 2, 120, "a task besides the template")
        node = federation.processes["supernode-0"]
        kill(node.pid)
        node.wait()
        wait_until(
            lambda: not {*processes("fedmirage.node")} & {*processes(f"FLWR_HOME={tmp_path}")},
            30,
            "all processes of the node end",
        )
