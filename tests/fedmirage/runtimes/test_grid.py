"""The queue of a round: who answers what, what is sent once, and what a lost worker leaves."""

import threading
import time
from collections import deque

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from fedmirage.common.errors import FedmirageError
from fedmirage.runtimes import grid as grids
from fedmirage.runtimes.grid import WorkerGrid, node_id
from fedmirage.runtimes.parcels import Load, LostWorkerError, QueuedMessage, Worker, unpack
from fedmirage.server.messages.replies import exchange

WEIGHTS = bytes(5000)


def make_message(partition: int, *tensors: bytes) -> Message:
    arrays = {str(place): Array("", (), "", data) for place, data in enumerate(tensors)}
    records = {"weights": ArrayRecord(arrays), "config": ConfigRecord({"partition": partition})}
    return Message(RecordDict(records), node_id(partition), "train", ttl=60)


def tensors_of(message: Message) -> list[bytes]:
    return [array.data for array in message.content.array_records["weights"].values()]


class Echo(Worker):
    """Answers with what it was sent; dies at messages for the partitions in `deadly`."""

    def __init__(self, deadly: tuple[int, ...] = (), spare: Worker | None = None) -> None:
        self.deadly, self.spare = deadly, spare
        self.jobs: deque[QueuedMessage] = deque()
        self.answered: list[int] = []
        self.loads: list[Load] = []

    def await_start(self) -> None:
        pass

    def send(self, job: QueuedMessage, context: Context) -> None:
        self.jobs.append(job)
        if job.load not in self.loads:
            self.loads.append(job.load)

    def receive(self) -> tuple[Message, Context]:
        message = self.jobs.popleft().message
        partition = int(message.content.config_records["config"]["partition"])  # type: ignore[arg-type]
        if partition in self.deadly:
            raise LostWorkerError("its process ended with code 1")
        self.answered.append(partition)
        reply = Message(RecordDict(), reply_to=message)
        state = RecordDict({"seen": MetricRecord({"messages": 1})})
        return reply, Context(1, node_id(partition), {}, state, {})

    def stop(self) -> None:
        pass

    def replace(self) -> Worker | None:
        return self.spare


def run_round(grid: WorkerGrid, count: int, timeout: float = 60) -> dict[int, Message]:
    messages = [make_message(partition, WEIGHTS) for partition in range(count)]
    return dict(exchange(grid, messages, timeout))


def test_what_all_messages_hold_is_packed_once() -> None:
    own = bytes(range(256)) * 20
    messages = [make_message(0, WEIGHTS, own), make_message(1, WEIGHTS)]
    load = Load(messages)
    assert load.content == [WEIGHTS]
    parcels = [load.pack(message) for message in messages]
    assert len(parcels[1]) < len(WEIGHTS) < len(parcels[0])
    again = [unpack(parcel, [WEIGHTS]) for parcel in parcels]
    assert [tensors_of(message) for message in again] == [[WEIGHTS, own], [WEIGHTS]]
    assert [message.metadata.dst_node_id for message in again] == [node_id(0), node_id(1)]


def test_equal_arrays_that_are_not_shared_stay_with_their_messages() -> None:
    messages = [make_message(partition, bytes(5000)) for partition in range(2)]
    assert Load(messages).content == []


def test_every_message_is_answered_once_and_states_are_kept() -> None:
    grid, workers = WorkerGrid(9), [Echo(), Echo()]
    for worker in workers:
        grid.add(worker)
    assert run_round(grid, 9).keys() == {node_id(partition) for partition in range(9)}
    assert sorted(workers[0].answered + workers[1].answered) == list(range(9))
    assert len({id(load) for worker in workers for load in worker.loads}) == 1
    assert [grid.contexts[node].state.metric_records["seen"] for node in grid.get_node_ids()] == [
        {"messages": 1}
    ] * 9
    grid.close()


@pytest.mark.parametrize("spare", [True, False])
def test_only_the_client_in_work_is_lost_with_a_worker(spare: bool) -> None:
    """What it had beside it goes to its replacement, or to the other workers."""
    other = Echo()
    lost = Echo(deadly=(2,), spare=other if spare else None)
    grid = WorkerGrid(8)
    grid.add(lost)
    if not spare:
        threading.Timer(0.05, grid.add, [other]).start()
    replies = run_round(grid, 8)
    failed = [node for node, reply in replies.items() if reply.has_error()]
    assert failed == [node_id(2)]
    assert replies[node_id(2)].error.reason == "its process ended with code 1"
    assert len(replies) == 8
    assert sorted(lost.answered + other.answered) == [0, 1, 3, 4, 5, 6, 7]
    grid.close()


class Hanging(Echo):
    """Never answers, until somebody ends it."""

    def __init__(self, spare: Worker | None = None) -> None:
        super().__init__(spare=spare)
        self.stopped = threading.Event()

    def receive(self) -> tuple[Message, Context]:
        self.stopped.wait(60)
        raise LostWorkerError("its process ended with code -9")

    def stop(self) -> None:
        self.stopped.set()


def test_a_hanging_worker_is_ended_at_the_deadline_and_replaced() -> None:
    """Its client is missing, as any that has not answered in time, and has not failed."""
    spare = Echo()
    grid, hanging = WorkerGrid(3), Hanging(spare)
    grid.add(hanging)
    assert run_round(grid, 3, timeout=0.2) == {}
    assert hanging.stopped.is_set()
    later = run_round(grid, 1)
    assert [(node, reply.has_error()) for node, reply in later.items()] == [(node_id(0), False)]
    assert spare.answered == [0]
    assert grid.replies == {}
    grid.close()


def test_a_worker_that_is_ended_while_it_answers_gets_no_more_messages() -> None:
    """Its late reply is dropped, and what it would have got is for its replacement."""
    released, spare = threading.Event(), Echo()

    class Slow(Echo):
        def receive(self) -> tuple[Message, Context]:
            released.wait(60)
            return super().receive()

    grid, slow = WorkerGrid(3), Slow(spare=spare)
    grid.add(slow)
    assert run_round(grid, 1, timeout=0.2) == {}
    released.set()
    assert list(run_round(grid, 2)) == [node_id(0), node_id(1)]
    assert (slow.answered, spare.answered) == ([0], [0, 1])
    grid.close()


class Stillborn(Echo):
    """Never takes a message."""

    def await_start(self) -> None:
        raise LostWorkerError("ValueError: no such model")


def test_another_worker_is_started_later_in_place_of_one_that_could_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grids, "PAUSE", 0.05)
    grid, spare = WorkerGrid(3), Echo()
    grid.add(Echo())
    grid.add(Stillborn(spare=Stillborn(spare=spare)))
    deadline = time.monotonic() + 20
    while not spare.answered and time.monotonic() < deadline:
        run_round(grid, 3)
    assert spare.answered
    (note,) = grid.notes  # once, though two have failed
    assert note.startswith("a process for clients could not start (ValueError: no such model)")
    grid.close()


def test_a_grid_that_is_closed_starts_no_other_worker() -> None:
    grid, spare = WorkerGrid(3), Echo()
    grid.add(Echo())
    grid.add(Stillborn(spare=spare))
    while not grid.notes:
        time.sleep(0.01)
    grid.close()
    assert spare not in grid.workers


@pytest.mark.parametrize("early", [True, False])
def test_the_reason_why_no_worker_could_start_reaches_whoever_waits(early: bool) -> None:
    """Whether the workers fail before there are messages or afterwards."""
    grid = WorkerGrid(3)
    threading.Timer(0 if early else 0.2, grid.add, [Stillborn()]).start()
    while early and not grid.why_nobody:
        time.sleep(0.01)
    with pytest.raises(FedmirageError, match="clients could start: ValueError: no such model"):
        run_round(grid, 3)
    grid.close()


def test_other_workers_answer_for_one_that_could_not_start() -> None:
    grid, other = WorkerGrid(3), Echo()
    grid.add(other)
    grid.add(Stillborn())
    assert not any(reply.has_error() for reply in run_round(grid, 3).values())
    assert sorted(other.answered) == [0, 1, 2]
    grid.close()


def test_a_node_without_a_state_costs_nothing() -> None:
    """A million nodes are there at once, and looking at one of them keeps nothing."""
    grid = WorkerGrid(1_000_000)
    message = Message(RecordDict(), node_id(999_999), "train", ttl=60)
    assert grid._context(message).node_config["partition-id"] == 999_999
    assert len(grid.contexts) == 0
    assert node_id(1_000_000) > 0  # as Flower wants it


def test_a_late_reply_does_not_bring_an_older_state_back() -> None:
    """The client may have got a newer message, whose state counts."""
    grid = WorkerGrid(1)
    late, newer = make_message(0), make_message(0)
    grid.push_messages([late])
    grid.push_messages([newer])
    for message, number in ((newer, 2), (late, 1)):
        state = RecordDict({"seen": MetricRecord({"messages": number})})
        context = Context(1, node_id(0), {}, state, {})
        grid._keep(message, Message(RecordDict(), reply_to=message), context)
    assert grid.contexts[node_id(0)].state.metric_records["seen"] == {"messages": 2}
    assert list(grid.replies) == [newer.metadata.message_id]
