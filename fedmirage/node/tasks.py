"""Takes tasks from a SuperNode, and has a process of ours answer each of them.

    python -m fedmirage.node.tasks ADDRESS PARENT own|any forked|fresh adaptive|flower

Flower's program for this (`flower-superexec`) starts a new Python per task, which installs the
bundle of the run, imports torch, and runs what is in the bundle.
"""

import json
import subprocess
import sys
from logging import ERROR
from typing import ClassVar

from flwr.common import log
from flwr.proto.runtime_pb2_grpc import RuntimeStub
from flwr.proto.task_pb2 import Task
from flwr.supercore.superexec import run_superexec as flower
from flwr.supercore.superexec.executor import LaunchResult
from flwr.supercore.superexec.plugin import ClientAppExecPlugin

from fedmirage.common.errors import FedmirageError
from fedmirage.common.flower import require
from fedmirage.node.log import open_log
from fedmirage.node.signals import end_silently
from fedmirage.node.waiting import Pace, set_pace
from fedmirage.runtimes.processes import undisturbed

PYTHON = (sys.executable, "-P", "-m")
NOBODY = "nobody takes the tasks of a SuperNode"


class Starter:
    """Starts a process per task: a new Python, or one that is forked from a template.

    Flower stops a task without a reply, for which the node would wait for ever, if the process that
    is named as its parent ends. That is the node, so that a task outlives the one that started it.
    """

    def __init__(self, node: str, code: str, waiting: str, forked: bool) -> None:
        self.node, self.way = node, (code, waiting)
        self.template = self.start_template() if forked else None

    def start(self, address: str, token: str) -> None:
        """Start the process that answers the message of a task."""
        task = [address, token, self.node]
        if self.template is None:
            with undisturbed():
                subprocess.Popen([*PYTHON, "fedmirage.node.task", *self.way, *task])
            return
        if self.template.poll() is not None:
            text = "the template of the tasks ended with code %d; another one is started"
            log(ERROR, text, self.template.returncode)
            self.template = self.start_template()
        assert self.template.stdin is not None
        self.template.stdin.write(json.dumps(task).encode() + b"\n")
        self.template.stdin.flush()

    def start_template(self) -> "subprocess.Popen[bytes]":
        """Start a template; it ends when this process does, because its input ends then."""
        command = [*PYTHON, "fedmirage.node.template", *self.way]
        with undisturbed():
            return subprocess.Popen(command, stdin=subprocess.PIPE)


class Tasks(ClientAppExecPlugin):
    """Flower's way to take tasks, with a process of ours for each of them."""

    starter: ClassVar[Starter]
    pace: ClassVar[Pace | None] = None

    def launch_task(self, token: str, task: Task) -> LaunchResult:
        """Start the process of one task."""
        if self._get_supported_task_type(task) is None:
            return LaunchResult.failed(f"a node has no tasks of type {task.type!r}")
        try:
            self.starter.start(self.runtime_api_address, token)
        except OSError as error:
            return LaunchResult.failed(str(error))
        if self.pace is not None:
            self.pace.note()
        return LaunchResult.accepted()


def main(address: str, parent: str, code: str, tasks: str, waiting: str) -> None:
    """Take tasks until the SuperNode, which is the parent, ends."""
    end_silently()
    open_log(ERROR)
    try:
        require(dir(ClientAppExecPlugin), ("launch_task", "_get_supported_task_type"), NOBODY)
        Tasks.pace = set_pace(flower) if waiting == "adaptive" else None
    except FedmirageError as error:
        sys.exit(f"error: {error}")
    Tasks.starter = Starter(parent, code, waiting, tasks == "forked")  # before there is a channel
    flower.run_superexec(Tasks, RuntimeStub, address, insecure=True, parent_pid=int(parent))


if __name__ == "__main__":
    main(*sys.argv[1:])
