"""What answers the messages of a grid: a worker in another process, and the jobs that it gets."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import Context, Message

from fedmirage.runtimes.parcels import Load


@dataclass(frozen=True)
class QueuedMessage:
    """A message that waits for a worker, and the load of its round."""

    message: Message
    find_load: Callable[[], Load]

    @property
    def load(self) -> Load:
        """What several messages of the round hold; it is packed once, for the first worker."""
        return self.find_load()


class LostWorkerError(Exception):
    """A worker's process has ended, or never began; the text says how."""


class Worker(ABC):
    """Answers messages in another process, in the order in which they come."""

    @abstractmethod
    def await_start(self) -> None:
        """Wait until it can take messages; raises a LostWorkerError if it never can."""

    @abstractmethod
    def send(self, job: QueuedMessage, context: Context) -> None:
        """Hand over a message without waiting for the reply."""

    @abstractmethod
    def receive(self) -> tuple[Message, Context]:
        """Wait for the reply to the oldest message; raises a LostWorkerError."""

    @abstractmethod
    def stop(self) -> None:
        """End it, whatever it is doing."""

    def replace(self) -> "Worker | None":
        """Return a new worker for one that was lost; None if the others do its work."""
        return None
