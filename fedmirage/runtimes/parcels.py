"""Workers in other processes that answer a grid's messages, and how messages are packed for them.

The clients of a round get the same weights. A message is pickled without them, and says where in
the load of the round they lie, so what several messages hold travels once. The processes belong to
one run and to one user, as they do for Python's own `multiprocessing`, which pickles as well. On a
Ray cluster all of it travels in Ray's own messages, which are pickled: whoever may send these may
run programs on its hosts.
"""

import io
import pickle
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Context, Message

LEAST = 1024  # bytes; what is smaller is not worth a place in the load


class Load:
    """The arrays that more than one message of a round holds, as bytes."""

    def __init__(self, messages: Iterable[Message]) -> None:
        arrays = [data for message in messages for data in find_arrays(message)]
        counts = Counter(map(id, arrays))
        common = {id(data): data for data in arrays if counts[id(data)] > 1 and len(data) >= LEAST}
        self.content = list(common.values())  # also keeps them alive, so that ids stay theirs
        self.places = {identity: place for place, identity in enumerate(common)}

    def pack(self, thing: Any) -> bytes:
        """Pickle anything, with places in this load instead of the arrays that are there."""
        buffer = io.BytesIO()
        _Packer(buffer, self.places).dump(thing)
        return buffer.getvalue()


def unpack(parcel: bytes, content: Sequence[bytes]) -> Any:
    """Read a parcel; `content` is that of the load with which it was packed."""
    return _Unpacker(io.BytesIO(parcel), content).load()


def find_arrays(message: Message) -> list[bytes]:
    """List the bytes of all arrays of a message."""
    if not message.has_content():
        return []
    records = message.content.array_records.values()
    return [array.data for record in records for array in record.values()]


class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, places: dict[int, int]) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self.places = places

    def persistent_id(self, thing: Any) -> int | None:
        return self.places.get(id(thing)) if type(thing) is bytes else None


class _Unpacker(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, content: Sequence[bytes]) -> None:
        super().__init__(buffer)
        self.content = content

    def persistent_load(self, place: int) -> bytes:
        return self.content[place]


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
