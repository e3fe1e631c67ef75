"""Flower's SuperNode, with a process beside it that takes its tasks.

    python -m fedmirage.node.connection own|any forked|fresh adaptive|flower ADDRESS ARGUMENTS...

takes the arguments of `flower-supernode` and is that program, but for its pace, and for a thread
that watches over the process of the tasks. A node whose tasks nobody takes would be silent: it
would stay connected, and miss every round.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from logging import ERROR

from fedmirage.common.errors import FedmirageError, reason
from fedmirage.node.log import log, open_log
from fedmirage.node.signals import end_with_a_sentence
from fedmirage.runtimes.processes import undisturbed

SHORT = 15.0  # seconds; a process that ends sooner than this will probably do so again
GRACE = 6.0  # seconds in which this process ends, too, if somebody wants the whole node to end


class TaskTaker:
    """Keeps a process that takes the tasks of this SuperNode, and ends when this process does."""

    def __init__(self, code: str, tasks: str, waiting: str, address: str) -> None:
        module = ["-m", "fedmirage.node.tasks", address, str(os.getpid()), code, tasks, waiting]
        self.command = [sys.executable, "-P", *module]
        self.end: Callable[[int], object] = os._exit  # Flower's threads would outlive an exception
        self.ending = threading.Event()  # Flower ends this process, and so the tasks' as well

    def start(self) -> None:
        """Start it, and watch over it in a thread."""
        process = self.spawn()
        threading.Thread(target=self.watch, args=(process,), daemon=True).start()

    def spawn(self) -> "subprocess.Popen[bytes]":
        """Start the process."""
        with undisturbed():
            return subprocess.Popen(self.command, stdin=subprocess.DEVNULL)

    def watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Start another process whenever one has ended; if that does not help, end the node."""
        while True:
            started = time.monotonic()
            code = process.wait()
            lived = time.monotonic() - started
            if self.ending.wait(GRACE):
                return
            what = f"the process that takes this node's tasks ended with code {code}"
            if lived < SHORT:
                why = "the node ends, because it could not answer"
                log.error("%s after %.0f s; %s", what, lived, why)
                self.end(1)
                return
            log.error("%s; another one is started", what)
            try:
                process = self.spawn()
            except OSError as error:
                log.error("no process can be started, so the node ends: %s", reason(error))
                self.end(1)
                return


def main(code: str, tasks: str, waiting: str, address: str, *arguments: str) -> None:
    """Become the SuperNode; what takes its tasks loads while this process does so, too."""
    end_with_a_sentence()
    taker = TaskTaker(code, tasks, waiting, address)
    taker.start()
    open_log(ERROR)
    from flwr.supercore.exit import add_exit_handler
    from flwr.supernode import start_client_internal as flower
    from flwr.supernode.cli import flower_supernode

    from fedmirage.common.flower import fetch_promptly
    from fedmirage.node.admission import Admission
    from fedmirage.node.waiting import set_pace

    given = dict(pairwise(arguments))  # each option, with its value
    key = given.get("--auth-supernode-private-key")
    try:
        Admission(given["--superlink"], key).follow(flower)
        if waiting == "adaptive":
            set_pace(flower, "_push_messages")  # called after each message that came
            fetch_promptly()
    except FedmirageError as error:
        sys.exit(f"error: {error}")
    add_exit_handler(taker.ending.set)
    add_exit_handler(partial(log.info, "this node ends"))
    sys.argv = ["flower-supernode", *arguments]  # Flower looks there for which program it is
    flower_supernode()


if __name__ == "__main__":
    main(*sys.argv[1:])
