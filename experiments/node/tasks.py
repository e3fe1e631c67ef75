"""Takes tasks from a SuperNode, and starts one process per task that runs this node's own code.

    python -m experiments.node.tasks ADDRESS PARENT

Flower's program for this (`flower-superexec`) starts processes that install the bundle of the run
and run what is in it.
"""

import os
import subprocess
import sys

from flwr.proto.runtime_pb2_grpc import RuntimeStub
from flwr.proto.task_pb2 import Task
from flwr.supercore.superexec.executor import LaunchResult
from flwr.supercore.superexec.plugin import ClientAppExecPlugin
from flwr.supercore.superexec.run_superexec import run_superexec


class OwnCode(ClientAppExecPlugin):
    """Flower's way to take tasks, with a process of ours for each of them."""

    def launch_task(self, token: str, task: Task) -> LaunchResult:
        """Start the process of one task."""
        if self._get_supported_task_type(task) is None:
            return LaunchResult.failed(f"a node has no tasks of type {task.type!r}")
        place = [self.runtime_api_address, token, str(os.getpid())]
        subprocess.Popen([sys.executable, "-P", "-m", "experiments.node.task", *place])
        return LaunchResult.accepted()


def main(address: str, parent: str) -> None:
    """Take tasks until the SuperNode, which is the parent, ends."""
    run_superexec(OwnCode, RuntimeStub, address, insecure=True, parent_pid=int(parent))


if __name__ == "__main__":
    main(*sys.argv[1:])
