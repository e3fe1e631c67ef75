"""The inprocess runtime: server and clients in one process, without Ray and gRPC.

It starts soonest. If several clients train in a round and there are cores for them, a few more
processes help.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from copy import deepcopy
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from client.app import make_app
from common.settings.config import RunConfig
from server.run import run

FAILED = 2  # Flower's code for a client that raised an exception


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


class Helper:
    """A process that trains clients for another one, and ends with it."""

    def __init__(self, config: RunConfig, memory: Path) -> None:
        context = multiprocessing.get_context("spawn")  # threads of torch do not survive a fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_help, args=(theirs, config, memory), daemon=True)
        self.process.start()
        theirs.close()

    def ready(self) -> bool:
        """Wait until it can take messages; False if it never can."""
        try:
            return bool(self.connection.recv())
        except (EOFError, OSError):
            return False

    def answer(self, message: Message, context: Context) -> tuple[Message, Context]:
        """Let it answer a message; if its process ends instead, the client has failed."""
        try:
            self.connection.send((message, context))
            answered: tuple[Message, Context] = self.connection.recv()
            return answered
        except (EOFError, OSError):
            self.process.join(5)
            reason = f"its process ended with code {self.process.exitcode}"
            return Message(Error(code=FAILED, reason=reason), reply_to=message), context

    def stop(self) -> None:
        """End it, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _help(connection: Connection, config: RunConfig, memory: Path) -> None:
    """Answer messages until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that it helps
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import client.build  # noqa: F401 - now, so that no client has to wait for it

    app = make_app(config, memory)
    connection.send(True)
    while True:
        try:
            message, context = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(answer(app, message, context))


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


class LocalGrid(Grid):
    """Flower's Grid over a dictionary.

    Messages are answered while they are pushed: by this process, and by its helpers as soon as they
    are ready.
    """

    def __init__(self, app: ClientApp, nodes: int) -> None:
        self.app = app
        self.contexts = {
            node_id(partition): Context(
                1,
                node_id(partition),
                {"partition-id": partition, "num-partitions": nodes},
                RecordDict(),
                {},
            )
            for partition in range(nodes)
        }
        self.replies: dict[str, Message] = {}
        self.helpers: list[Helper] = []
        self.change = threading.Condition()  # guards what follows, and the replies
        self.waiting: deque[Message] = deque()
        self.busy = 0  # helpers that have a message
        self.closed = False

    def add(self, helper: Helper) -> None:
        """Let a helper take its share of the messages as soon as it is ready."""
        self.helpers.append(helper)
        threading.Thread(target=self._feed, args=(helper,), daemon=True).start()

    def close(self) -> None:
        """End the helpers."""
        with self.change:
            self.closed = True
            self.change.notify_all()
        for helper in self.helpers:
            helper.stop()

    @property
    def run(self) -> Any:
        """Flower's record of the run, which is not used here."""
        return None

    def set_run(self, run: Any) -> None:
        """Part of Flower's interface."""

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Part of Flower's interface."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """All nodes are connected from the beginning."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Have all of them answered, except those whose time is up before they begin."""
        pushed = list(messages)
        for message in pushed:
            message.metadata.__dict__["_message_id"] = str(uuid4())
        with self.change:
            self.waiting.extend(pushed)
            self.change.notify_all()
        threads = torch.get_num_threads()
        try:
            while (first := self._next()) is not None:
                self._keep(first, *answer(self.app, first, self._context(first)))
        finally:
            self.waiting.clear()
            torch.set_num_threads(threads)  # the server's, which may be more than a client's
        with self.change:
            self.change.wait_for(lambda: not self.busy)
        return [message.metadata.message_id for message in pushed]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have arrived."""
        return [self.replies.pop(number) for number in list(message_ids) if number in self.replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Part of Flower's interface."""
        return self.pull_messages(self.push_messages(messages))

    def receive(self, node: int, reply: Message) -> Message | None:
        """Return a reply as it arrives; None if it was lost on its way."""
        return reply

    def expired(self, message: Message) -> bool:
        """Whether a message has waited so long that it is not begun any more."""
        return time.time() > message.metadata.created_at + message.metadata.ttl

    def _next(self) -> Message | None:
        """Take the next message that must be answered."""
        with self.change:
            while self.waiting:
                message = self.waiting.popleft()
                if not self.expired(message):
                    return message
        return None

    def _context(self, message: Message) -> Context:
        return self.contexts[message.metadata.dst_node_id]

    def _keep(self, message: Message, reply: Message, context: Context) -> None:
        node = message.metadata.dst_node_id
        reply.metadata.__dict__["_src_node_id"] = node
        with self.change:
            self.contexts[node] = context
            kept = self.receive(node, reply)
            if kept is not None:
                self.replies[message.metadata.message_id] = kept

    def _feed(self, helper: Helper) -> None:
        """Give a helper its share of the messages, in a thread that mostly waits for it."""
        usable = helper.ready()
        while usable and not self.closed:
            with self.change:
                self.change.wait_for(lambda: self.waiting or self.closed)
                message = None if self.closed else self._next()
                self.busy += message is not None
            if message is not None:
                try:
                    self._keep(message, *helper.answer(message, self._context(message)))
                finally:
                    with self.change:
                        self.busy -= 1
                        self.change.notify_all()
            usable = helper.process.is_alive()


def node_id(partition: int) -> int:
    """Make ids that do not sort like partitions, just as Flower's random ones do not."""
    return 10_000 - 7 * partition
