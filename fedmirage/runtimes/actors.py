"""Ray actors that train clients; what all messages of a round hold is put into Ray's store once."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

import ray
from flwr.app import Context, Message

from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.parcels import Load, LostWorkerError, QueuedMessage, Worker, unpack


class ClientAppActor:
    """Answers the messages of all clients, one after the other, in a process of Ray's."""

    def __init__(self, settings: dict[str, Any], memory: str) -> None:
        import fedmirage.client.build  # noqa: F401 - now, so that no client has to wait for it
        from fedmirage.client.app import make_app
        from fedmirage.common.settings.config import validate
        from fedmirage.runtimes.inprocess import answer

        self.app, self.answer_message = make_app(validate(settings), Path(memory)), answer
        self.reference: ray.ObjectRef[list[bytes]] | None = None
        self.content: list[bytes] = []

    def start(self) -> bool:
        """Say that it can take messages."""
        return True

    def answer(
        self, parcel: bytes, references: list[ray.ObjectRef[list[bytes]]]
    ) -> tuple[Message, Context]:
        """Answer a message; the load of its round is fetched with the first of them."""
        if self.reference != references[0]:
            self.reference, self.content = references[0], ray.get(references[0])
        return self.answer_message(self.app, *unpack(parcel, self.content))


class Store:
    """Ray's store, with the load of one round at a time; the actors of a run share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.load: Load | None = None
        self.references: list[ray.ObjectRef[list[bytes]]] = []

    def put(self, load: Load) -> list[ray.ObjectRef[list[bytes]]]:
        """Put what the messages of a round hold into the store, unless it is there already.

        A reference inside a list reaches an actor as a reference, which it may know already.
        """
        with self.lock:
            if load is not self.load:
                self.load, self.references = load, [ray.put(load.content)]
            return self.references


class ActorWorker(Worker):
    """One actor, as the grid sees it."""

    remedy = "raise node-timeout, or lower --actors"  # for an actor that does not start

    def __init__(self, config: RunConfig, memory: Path, gpu_share: float, store: Store) -> None:
        self.config, self.memory, self.gpu_share, self.store = config, memory, gpu_share, store
        self.actor: Any = self.start_actor()
        self.results: deque[ray.ObjectRef[Any]] = deque()

    def start_actor(self) -> Any:
        """Ask Ray for an actor, without waiting for it."""
        kind = ray.remote(ClientAppActor).options(num_cpus=1, num_gpus=self.gpu_share)
        return kind.remote(self.config.flat(), str(self.memory))

    def await_start(self) -> None:
        """Wait until it can take messages, as long as the server waits for its clients."""
        try:
            self.check_start(ray.get(self.actor.start.remote(), timeout=self.config.node_timeout))
        except ray.exceptions.GetTimeoutError:
            raise LostWorkerError(
                f"Ray has not started an actor within {self.config.node_timeout:g} s"
                f" (node-timeout); {self.remedy}"
            ) from None
        except ray.exceptions.RayError as error:
            raise LostWorkerError(find_cause(error)) from None

    def check_start(self, said: Any) -> None:
        """Look at what the actor says of itself; raises a LostWorkerError if it cannot be used."""

    def send(self, job: QueuedMessage, context: Context) -> None:
        """Let it answer a message as soon as it has answered the one before."""
        parcel = job.load.pack((job.message, context))
        self.results.append(self.actor.answer.remote(parcel, self.store.put(job.load)))

    def receive(self) -> tuple[Message, Context]:
        """Wait for the next reply."""
        answered: tuple[Message, Context] = self.await_result()
        return answered

    def await_result(self) -> Any:
        """Wait for what the actor returns next."""
        try:
            return ray.get(self.results.popleft())
        except ray.exceptions.RayActorError:
            raise LostWorkerError("the Ray actor that trained it has ended") from None
        except ray.exceptions.RayError as error:
            raise LostWorkerError(f"Ray has lost its reply: {find_cause(error)}") from None

    def stop(self) -> None:
        """End it, whatever it is doing."""
        ray.kill(self.actor)

    def replace(self) -> ActorWorker:
        """Start another actor, because nothing else would train the clients.

        This one may be alive, and has to make room.
        """
        self.stop()
        return ActorWorker(self.config, self.memory, self.gpu_share, self.store)


def find_cause(error: ray.exceptions.RayError) -> str:
    """Return the last line of an error of Ray's, which says what happened; a trace is before it."""
    line = str(error).strip().splitlines()[-1].strip()
    kind, _, sentence = line.partition(": ")
    return sentence if kind.startswith("fedmirage.common.errors.") else line
