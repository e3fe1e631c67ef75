"""The inprocess runtime: server and clients in one process, without Ray and gRPC.

It starts soonest. If several clients train in a round and there are cores for them, a few more
processes help.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable
from copy import deepcopy
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

from client.app import make_app
from common.settings.config import RunConfig
from experiments.runtimes.grid import FAILED, WorkerGrid, node_id
from experiments.runtimes.parcels import Load, unpack
from experiments.runtimes.workers import Job, LostWorkerError, Worker
from server.run import run

__all__ = ["Helper", "LocalGrid", "answer", "node_id", "run_in_process"]


def run_in_process(config: RunConfig, processes: int = 1) -> dict[str, Any]:
    """Run to the end in this process and `processes` - 1 others; return the summary line."""
    memory = Path(config.resume or config.out) / "memory"
    grid = LocalGrid(make_app(config, memory), config.clients)
    try:
        for _ in range(processes - 1):
            grid.add(Helper(config, memory))
        return run(grid, config)
    finally:
        grid.close()


class Helper(Worker):
    """A process that trains clients for another one, and ends with it."""

    def __init__(self, config: RunConfig, memory: Path) -> None:
        context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_help, args=(theirs, config, memory), daemon=True)
        self.process.start()
        theirs.close()
        self.load: Load | None = None  # what it was last sent

    def await_start(self) -> None:
        """Wait until it can take messages."""
        self._receive()

    def send(self, job: Job, context: Context) -> None:
        """Send a message, and before the first one of a round what all of them hold."""
        content = None if job.load is self.load else job.load.content
        self.load = job.load
        try:
            self.connection.send((job.load.pack((job.message, context)), content))
        except OSError:  # it has ended; `receive` says so
            return

    def receive(self) -> tuple[Message, Context]:
        """Wait for the next reply."""
        answered: tuple[Message, Context] = self._receive()
        return answered

    def _receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            raise LostWorkerError(f"its process ended with code {code}") from None

    def stop(self) -> None:
        """End it, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _help(connection: Connection, config: RunConfig, memory: Path) -> None:
    """Answer messages until the connection is closed, which `_read` notices."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that it helps
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import client.build  # noqa: F401 - now, so that no client has to wait for it

    app = make_app(config, memory)
    connection.send("ready")
    requests: SimpleQueue[tuple[bytes, list[bytes] | None]] = SimpleQueue()
    threading.Thread(target=_read, args=(connection, requests), daemon=True).start()
    content: list[bytes] = []
    while True:
        parcel, new = requests.get()
        content = content if new is None else new
        connection.send(answer(app, *unpack(parcel, content)))


def _read(
    connection: Connection, requests: "SimpleQueue[tuple[bytes, list[bytes] | None]]"
) -> None:
    """Queue requests as they come, and end this process when no more can come.

    If nobody read while a client trains, both sides could wait for each other for ever: one to send
    the next request and the other to send a reply, each too large for what a pipe holds.
    """
    try:
        while True:
            requests.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, even in the middle of a training."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def answer(app: ClientApp, message: Message, context: Context) -> tuple[Message, Context]:
    """Return a client's reply and its state afterwards.

    As in Flower, an exception becomes an error message and leaves the state as it was.
    """
    later = deepcopy(context)
    try:
        return app(deepcopy(message), later), later
    except Exception as error:
        return Message(Error(code=FAILED, reason=str(error)), reply_to=message), context


class LocalGrid(WorkerGrid):
    """Messages are answered while they are pushed: by this process, and by its helpers."""

    needs_workers = False

    def __init__(self, app: ClientApp, nodes: int) -> None:
        super().__init__(nodes)
        self.app = app

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Have all of them answered, except those whose time is up before they begin."""
        numbers = super().push_messages(messages)
        threads = torch.get_num_threads()
        try:
            while True:
                while (job := self._next()) is not None:
                    message = job.message
                    self._keep(message, *answer(self.app, message, self._context(message)))
                with self.change:
                    self.change.wait_for(lambda: self.waiting or not self.busy)
                    if not self.waiting:
                        return numbers
        finally:
            with self.change:
                self.waiting.clear()
            torch.set_num_threads(threads)  # the server's, which may be more than a client's
