"""The inprocess runtime: server and clients in one process, without Ray and gRPC.

It starts soonest. If several clients train in a round and there are cores for them, a few more
processes help. A client that hangs costs the round for itself and for those that wait behind it,
and the run goes on: a helper is ended and another one started, while a client in the server's own
process, which cannot be ended, is left behind in its thread, and a helper takes the place of that
thread.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from logging import WARNING
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common import log

from fedmirage.client.app import make_app
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.grid import FAILED, WorkerGrid
from fedmirage.runtimes.parcels import Load, LostWorkerError, QueuedMessage, Worker, unpack
from fedmirage.runtimes.sites import Sites
from fedmirage.server.run import run

START = 120.0  # seconds in which a helper must have loaded everything
ENDING = 5.0  # seconds to wait for a killed helper, which a slow disk may hold for longer


def run_in_process(config: RunConfig, processes: int = 1, sites: Sites = ()) -> dict[str, Any]:
    """Run to the end in this process and `processes` - 1 others; return the summary line."""
    memory = Path(config.resume or config.out) / "memory"
    help_out = partial(Helper, config, memory)
    grid = LocalGrid(make_app(config, memory), config.clients, help_out, sites)
    try:
        for _ in range(processes - 1):
            grid.add(help_out())
        return run(grid, config)
    finally:
        grid.close()


class Helper(Worker):
    """A process that trains clients for another one, and ends with it."""

    def __init__(self, config: RunConfig, memory: Path) -> None:
        self.config, self.memory, self.ready = config, memory, False
        context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_help, args=(theirs, config, memory), daemon=True)
        self.process.start()
        theirs.close()
        self.load: Load | None = None  # what it was last sent

    def await_start(self) -> None:
        """Wait until it can take messages."""
        if not self.ready:
            if not self.connection.poll(START):
                self.stop()
                raise LostWorkerError(f"it has not started within {START:.0f} s")
            self._receive()
            self.ready = True

    def send(self, job: QueuedMessage, context: Context) -> None:
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
        """End it, whatever it is doing.

        The connection is left to whoever reads from it, who finds out that way.
        """
        self.process.kill()
        self.process.join(ENDING)

    def replace(self) -> "Helper":
        """Start another process in place of this one."""
        self.stop()
        return Helper(self.config, self.memory)


def _help(connection: Connection, config: RunConfig, memory: Path) -> None:
    """Answer messages until the connection is closed, which `_read` notices."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that it helps
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import fedmirage.client.build  # noqa: F401 - now, so that no client has to wait for it

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


class OwnThread:
    """The thread of this process in which its own clients train, so that one can be left behind."""

    def __init__(self, app: ClientApp) -> None:
        self.app = app
        self.requests: SimpleQueue[tuple[Message, Context]] = SimpleQueue()
        self.results: SimpleQueue[tuple[Message, Context] | BaseException] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def answer(
        self, message: Message, context: Context, seconds: float
    ) -> tuple[Message, Context] | None:
        """Return a client's reply and its state afterwards; None if it takes longer than this."""
        self.requests.put((message, context))
        try:
            found = self.results.get(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX))
        except Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    def _work(self) -> None:
        while True:
            try:
                self.results.put(answer(self.app, *self.requests.get()))
            except BaseException as error:
                self.results.put(error)


class LocalGrid(WorkerGrid):
    """Messages are answered while replies are waited for: by this process, and by its helpers.

    `help_out` starts a helper in place of a thread in which a client hangs. Without it, clients
    train in the calling thread, and are waited for.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: int,
        help_out: Callable[[], Helper] | None = None,
        sites: Sites = (),
    ) -> None:
        super().__init__(nodes, sites)
        self.app, self.help_out = app, help_out
        self.own = OwnThread(app) if help_out else None
        self.takes_part = True

    def await_messages(self, message_ids: Iterable[str], seconds: float) -> bool:
        """Answer messages here until there is a reply to one of these, or their time is up."""
        numbers, deadline = set(message_ids), time.monotonic() + seconds
        threads = torch.get_num_threads()
        try:
            while self.takes_part and (job := self._await_job(numbers, seconds)) is not None:
                self._answer_here(job.message)
        finally:
            torch.set_num_threads(threads)  # the server's, which may be more than a client's
        return super().await_messages(numbers, deadline - time.monotonic())

    def _await_job(self, numbers: set[str], seconds: float) -> QueuedMessage | None:
        """Wait for a message for this process; None if a reply is there, or none will come."""
        with self.change:
            self.change.wait_for(
                lambda: self.waiting or not self.busy or self.arrived(numbers),
                min(max(0.0, seconds), threading.TIMEOUT_MAX),
            )
            job = None if self.arrived(numbers) else self._next()
        if job is None:
            self._end_late_workers()
        return job

    def _answer_here(self, message: Message) -> None:
        """Answer a message in this process; if it takes too long, a helper does so from now on."""
        context = self._context(message)
        if self.own is None:
            self._keep(message, *answer(self.app, message, context))
            return
        answered = self.own.answer(message, context, self.seconds_left(message))
        if answered is not None:
            self._keep(message, *answered)
            return
        assert self.help_out is not None
        log(WARNING, "a client is left behind in the server's process: no answer from it in time")
        self._end_late_workers()
        self.takes_part, helper = False, self.help_out()
        try:
            helper.await_start()  # the next round should not have to wait for it
        except LostWorkerError as error:
            raise FedmirageError(f"no process for clients could start: {error}") from None
        self.add(helper)
