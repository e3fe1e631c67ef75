"""Flower's Grid over a few workers of this host, without a SuperLink and without looking for work.

Flower's simulation keeps messages in a store in which it searches for those of every node, ten
times per second. With a thousand nodes that search takes longer than the training. Here the
messages of a round stand in one queue, workers take the next one as soon as they are free, and
whoever waits for the replies is woken up.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable
from functools import cache, partial
from logging import ERROR, WARNING
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.common import log
from flwr.common.constant import ErrorCode

from fedmirage.common.errors import FedmirageError
from fedmirage.common.flower import name_task
from fedmirage.runtimes.parcels import Load, LostWorkerError, QueuedMessage, Worker
from fedmirage.runtimes.sites import Sites
from fedmirage.server.messages.replies import WaitingGrid

FAILED = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
PAUSE = 120.0  # seconds until another worker is started in place of one that could not start
LATER = f"clients train in the others, and another one is started in {PAUSE:.0f} s"
AHEAD = 2  # messages that a worker has at most: one in work, and one so that it need not wait


class WorkerGrid(WaitingGrid):
    """Messages in a queue, workers that take them, and the nodes' contexts."""

    def __init__(self, nodes: int, sites: Sites = ()) -> None:
        super().__init__()
        name_task()
        self.alike, self.contexts = not sites, Contexts(nodes, sites)
        self.takes_part = False  # whether this process answers messages, too
        self.workers: list[Worker] = []
        self.change = threading.Condition()  # guards the workers and what follows
        self.asked: set[str] = set()  # the messages of this round; a reply to another is dropped
        self.replies: dict[str, Message] = {}
        self.waiting: deque[QueuedMessage] = deque()
        self.given: dict[Worker, deque[QueuedMessage]] = {}  # what each worker has, oldest first
        self.ended: set[Worker] = set()  # workers that were ended because they took too long
        self.closed = False
        self.why_nobody = ""  # why no worker could start, if none could

    def add(self, worker: Worker) -> None:
        """Let a worker take its share of the messages as soon as it is ready."""
        with self.change:
            self.workers.append(worker)
            self.why_nobody = ""
        threading.Thread(target=self._feed, args=(worker,), daemon=True).start()

    def close(self) -> None:
        """End the workers."""
        with self.change:
            self.closed = True
            self.change.notify_all()
            workers = list(self.workers)
        for worker in workers:
            worker.stop()

    @property
    def run(self) -> Any:
        """Flower's record of the run, which is not used here."""
        return None

    def set_run(self, run: Any) -> None:
        """Part of Flower's interface."""

    def create_message(self, *_: Any, **__: Any) -> Message:
        """Part of Flower's interface, which Flower itself does not use any more."""
        raise NotImplementedError("write Message(...) instead")

    def get_node_ids(self) -> Iterable[int]:
        """All nodes are connected from the beginning."""
        return [node_id(partition) for partition in range(self.contexts.nodes)]

    def node_of(self, partition: int) -> int:
        """Return the id of the node that serves a partition."""
        return node_id(partition)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Queue them for the workers; what is left of an earlier round is forgotten."""
        pushed = list(messages)
        for message in pushed:
            message.metadata.__dict__["_message_id"] = str(uuid4())
        numbers = [message.metadata.message_id for message in pushed]
        find_load = cache(partial(Load, pushed))  # only if another process answers some of them
        with self.change:
            self.asked = set(numbers)
            self.replies.clear()
            self.waiting.clear()
            self.waiting.extend(QueuedMessage(message, find_load) for message in pushed)
            self.change.notify_all()
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have arrived."""
        with self.change:
            numbers = [number for number in message_ids if number in self.replies]
            return [self.replies.pop(number) for number in numbers]

    def await_messages(self, message_ids: Iterable[str], seconds: float) -> bool:
        """Wait for one of these replies; False if none came within this time.

        If no worker could start, nobody will ever reply, and the reason is raised.
        """
        numbers = set(message_ids)
        with self.change:
            self.change.wait_for(lambda: self.why_nobody or self.arrived(numbers), seconds)
            arrived = self.arrived(numbers)
            if self.why_nobody and not arrived:
                raise FedmirageError(self.why_nobody)
        self._end_late_workers()
        return arrived

    def arrived(self, numbers: set[str]) -> bool:
        """Whether there is a reply to one of these messages."""
        return not numbers.isdisjoint(self.replies)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Part of Flower's interface."""
        waiting, found = set(self.push_messages(messages)), list[Message]()
        deadline = time.monotonic() + (timeout or threading.TIMEOUT_MAX)
        while waiting and self.await_messages(waiting, deadline - time.monotonic()):
            found += self.pull_messages(waiting)
            waiting -= {reply.metadata.reply_to_message_id for reply in found}
        return found

    def receive(self, node: int, reply: Message) -> Message | None:
        """Return a reply as it arrives; None if it was lost on its way."""
        return reply

    def seconds_left(self, message: Message) -> float:
        """Return how long a reply to a message still counts."""
        return message.metadata.created_at + message.metadata.ttl - time.time()

    def expired(self, message: Message) -> bool:
        """Whether a message has waited so long that it is not begun any more."""
        return self.seconds_left(message) < 0

    @property
    def busy(self) -> bool:
        """Whether a worker has something to do."""
        return any(self.given.values())

    def _next(self) -> QueuedMessage | None:
        """Take the next message that must be answered."""
        with self.change:
            while self.waiting:
                job = self.waiting.popleft()
                if not self.expired(job.message):
                    return job
        return None

    def _context(self, message: Message) -> Context:
        return self.contexts.find(message.metadata.dst_node_id)

    def _keep(self, message: Message, reply: Message, context: Context) -> None:
        """Keep a reply and the client's state after it.

        If the reply is late, so is the state: the client may have got a newer message already.
        """
        node = message.metadata.dst_node_id
        reply.metadata.__dict__["_src_node_id"] = node
        with self.change:
            asked = message.metadata.message_id in self.asked
            if asked:
                self.contexts.keep(node, context)
            kept = self.receive(node, reply)
            if asked and kept is not None:
                self.replies[message.metadata.message_id] = kept
            self.change.notify_all()

    def _feed(self, worker: Worker) -> None:
        """Give a worker its share of the messages, in a thread that mostly waits for it."""
        next_worker: Worker | None = worker
        while next_worker is not None and not self.closed:
            worker = next_worker
            try:
                worker.await_start()
            except LostWorkerError as error:
                next_worker = self._start_later(worker, str(error))
                continue
            try:
                self._use(worker)
                return
            except LostWorkerError:
                next_worker = self._replace(worker)

    def _start_later(self, worker: Worker, reason: str) -> Worker | None:
        """Leave the messages to the others for a while, and start another worker after it.

        If there are no others, nobody answers the messages.
        """
        with self.change:
            if self.closed:
                return None
            self.workers.remove(worker)
            nobody = not self.workers and not self.takes_part
            if nobody:
                self.why_nobody = f"no process for clients could start: {reason}"
            else:
                note = f"a process for clients could not start ({reason}); {LATER}"
                self.notes += [] if note in self.notes else [note]
            log(ERROR, "a process for clients could not start: %s", reason)
            self.change.notify_all()
        worker.stop()
        with self.change:
            if nobody or self.change.wait_for(lambda: self.closed, PAUSE):
                return None
            new = worker.replace()
            self.workers += [] if new is None else [new]
            return new

    def _replace(self, worker: Worker) -> Worker | None:
        """Start a worker in place of one that was lost, if it wants a replacement."""
        with self.change:
            new = None if self.closed else worker.replace()
            if new is not None:
                self.workers[self.workers.index(worker)] = new
            return new

    def _end_late_workers(self) -> None:
        """End workers whose reply does not count any more: they hang, or are too slow.

        Others take their place, as soon as the threads that wait for them notice it.
        """
        with self.change:
            for worker, jobs in list(self.given.items()):
                if jobs and self.expired(jobs[0].message) and worker not in self.ended:
                    log(WARNING, "a process for clients is ended: no answer from it in time")
                    self.ended.add(worker)
                    worker.stop()

    def _use(self, worker: Worker) -> None:
        """Hand over messages and collect replies until the grid is closed or the worker is lost."""
        given: deque[QueuedMessage] = deque()
        with self.change:
            self.given[worker] = given
        try:
            while True:
                with self.change:
                    self.change.wait_for(lambda: self.waiting or given or self.closed)
                    if self.closed:
                        return
                    if worker in self.ended and not given:
                        raise LostWorkerError("it took too long")
                    job = self._next() if self._may_take(worker, given) else None
                    given.extend([job] if job else [])
                if job is not None:
                    worker.send(job, self._context(job.message))
                elif given:
                    self._collect(worker, given)
        finally:
            with self.change:
                del self.given[worker]
                self.ended.discard(worker)
                self.waiting.extendleft(reversed(given))  # never begun, so others answer them
                self.change.notify_all()

    def _may_take(self, worker: Worker, given: deque[QueuedMessage]) -> bool:
        """Whether a worker may have one more message.

        A second one is for the worker alone if enough are left for all the others.
        """
        more = len(self.waiting) > len(self.workers) if given else True
        return len(given) < AHEAD and more and worker not in self.ended

    def _collect(self, worker: Worker, given: deque[QueuedMessage]) -> None:
        """Take the reply to the oldest message; if the worker was lost, its client has failed.

        If its time was up already, nobody waits for a reply.
        """
        message = given[0].message
        try:
            self._keep(message, *worker.receive())
        except LostWorkerError as error:
            if not self.expired(message):
                reply = Message(Error(ErrorCode.CLIENT_APP_CRASHED, str(error)), reply_to=message)
                self._keep(message, reply, self._context(message))
            raise
        finally:
            with self.change:
                given.popleft()
                self.change.notify_all()


class Contexts(dict[int, Context]):
    """The contexts of nodes that have a state; those of all others are made when they are needed.

    Looked up by its id, a node gets one that is kept.
    """

    def __init__(self, nodes: int, sites: Sites = ()) -> None:
        super().__init__()
        self.nodes, self.sites = nodes, sites

    def __missing__(self, node: int) -> Context:
        return self.setdefault(node, self.make(node))

    def find(self, node: int) -> Context:
        """Return the context of a node without keeping it."""
        return self.get(node) or self.make(node)

    def keep(self, node: int, context: Context) -> None:
        """Keep what a node has after a message, unless that is what it had at the beginning."""
        if node in self or context.state:
            self[node] = context

    def make(self, node: int) -> Context:
        """Make a context as it is before the first message."""
        partition = partition_of(node)
        facts: dict[str, Any] = {"partition-id": partition, "num-partitions": self.nodes}
        facts |= self.sites[partition] if self.sites else {}
        return Context(1, node, facts, RecordDict(), {})


FIRST, APART = 10**12, 7  # the id of the node of partition 0, and how far the others are apart


def node_id(partition: int) -> int:
    """Make ids that do not sort like partitions, just as Flower's random ones do not."""
    return FIRST - APART * partition


def partition_of(node: int) -> int:
    """Return the partition of a node."""
    return (FIRST - node) // APART
