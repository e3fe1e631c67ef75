"""Collects replies until a deadline, and checks every one before anything uses it.

Over gRPC, Flower's own loop looks for replies every three seconds; this one looks more often.

A reply must be readable, have the right names, shapes and types, and hold finite, plausible
numbers.

Anybody may have written a reply, so whatever goes wrong while it is read costs its sender the
round, and nobody else.
"""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from flwr.app import Message
from flwr.common import EvaluateRes, FitRes, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat
from flwr.serverapp import Grid

from fedmirage.common.errors import WireError
from fedmirage.common.run import Run
from fedmirage.common.wire import held_out
from fedmirage.common.wire.manifest import Entry
from fedmirage.common.wire.metrics import ERROR, SAMPLES, STEPS, check_declared, declared_metrics
from fedmirage.common.wire.payload import (
    LAYOUT,
    SHARED,
    Array,
    Arrays,
    decode,
    pack,
    read_layout,
    view,
)
from fedmirage.common.wire.short import ShortType, Wire

POLL = 0.2  # seconds between two looks for replies
PULLED = 16  # replies that are fetched at a time
Replies = Iterable[tuple[int, Message]]  # id of the node that was asked, and its reply
Send = Callable[[list[Message], float], Replies]  # within so many seconds
HEADER = 256  # more bytes than numpy writes before the content of an array
MOST_EXAMPLES = 10**9  # of one client
LARGEST = 1e9  # no trained weight, and no loss of a model that can be used, is larger
LONGEST = 400  # characters of a client's sentence

T = TypeVar("T")


class WaitingGrid(Grid):
    """A grid that knows when replies arrive, so that nobody has to look for them.

    It has all nodes from the beginning.
    """

    # Whether all nodes run the same program on parts of the same set: one can answer for all.
    alike = False

    def __init__(self) -> None:
        self.notes: list[str] = []  # what results.jsonl should say about its workers

    @abstractmethod
    def node_of(self, partition: int) -> int:
        """Return the id of the node that serves a partition."""

    @abstractmethod
    def await_messages(self, message_ids: Iterable[str], seconds: float) -> bool:
        """Wait for a reply to one of these messages; False if none came within this time."""


def exchange(grid: Grid, messages: list[Message], timeout: float) -> Replies:
    """Send messages; yield the replies as they arrive in time, so that no two need be kept.

    The sender of a reply is taken from the message that it answers, because an error that the
    SuperLink writes for a lost node carries the SuperLink's own id. A message that is not fetched
    by the deadline expires, so that nobody trains for it any more.
    """
    deadline = time.monotonic() + timeout
    for message in messages:
        message.metadata.ttl = timeout
    sent = zip(grid.push_messages(messages), messages, strict=False)
    waiting = {
        identifier: message.metadata.dst_node_id for identifier, message in sent if identifier
    }
    return collect(grid, waiting, deadline)


def collect(grid: Grid, waiting: dict[str, int], deadline: float) -> Replies:
    """Yield replies to messages, whose receivers are given, until the deadline."""
    while waiting:
        for identifiers in batched(list(waiting), PULLED):
            for reply in grid.pull_messages(identifiers):
                yield waiting.pop(reply.metadata.reply_to_message_id), reply
        left = deadline - time.monotonic()
        if not waiting:
            break
        if isinstance(grid, WaitingGrid):
            if not grid.await_messages(list(waiting), left):
                break
        elif left < 0:
            break
        else:
            time.sleep(POLL)


def batched(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut into pieces of this size."""
    return (values[start : start + size] for start in range(0, len(values), size))


def read_reply(reply: Message, read: Callable[[Any], T]) -> T:
    """Read a reply; raises a WireError, whatever is wrong with it."""
    if reply.has_error():
        raise WireError(f"it failed: {clean(reply.error.reason)}")
    try:
        return read(reply.content)
    except WireError as error:
        raise WireError(clean(str(error))) from None
    except Exception as error:  # a missing record, a list for a number, a number for a text
        raise WireError(f"its message is malformed ({type(error).__name__})") from None


def clean(text: object) -> str:
    """Make a text from elsewhere fit to be shown: one line of limited length, nothing invisible."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text)[: 4 * LONGEST])
    shown = " ".join(shown.split())
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def read_evaluation(names: Iterable[str], content: Any) -> EvaluateRes:
    """Read a client's scores on its validation samples, of which a loss cannot be negative."""
    result = compat.recorddict_to_evaluateres(content)
    check_examples(result.num_examples)
    if not result.num_examples:
        return result
    if not 0 <= result.loss <= LARGEST:
        raise WireError(f"its validation loss is {result.loss:g}")
    check_declared(result.metrics, names)
    for name, value in result.metrics.items():
        check_number(name, value)
    return result


def check_examples(examples: object) -> None:
    """Require a number of examples that a client can have."""
    if not isinstance(examples, int) or not 0 <= examples <= MOST_EXAMPLES:
        raise WireError(f"it reports {examples!r} examples")


def check_held_out(metrics: Mapping[str, Any]) -> None:
    """Require scores on what a site holds out that can be averaged with those of others."""
    if held_out.EXAMPLES in metrics:
        check_examples(metrics[held_out.EXAMPLES])
    for name, value in metrics.items():
        if held_out.is_score(name) and not abs(value) <= held_out.LARGEST:
            raise WireError(f"its metric {name!r} is {value:g}, which no site reports")


def check_number(name: str, value: object) -> None:
    """Require that a metric is a number; steps and samples are counted, so they must be finite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WireError(f"its metric {name!r} is {value!r}, and not a number")
    if name in (STEPS, SAMPLES) and not (math.isfinite(value) and 0 <= value <= 2**53):
        raise WireError(f"its metric {name!r} is {value!r}")


class ReplyCheck:
    """Knows the model that was sent out, and the sections that this run's methods send back."""

    def __init__(self, run: Run) -> None:
        self.expected: dict[str, Sequence[Entry] | None] = {SHARED: run.shared.entries}
        self.expected |= {section.name: run.entries_of(section) for section in run.sections}
        self.least = {section.name: section.least for section in run.sections}
        self.metrics = declared_metrics(run)
        self.wire = Wire(run)

    def read(self, content: Any) -> FitRes:
        """Read a reply to a request to train; raises a WireError if it cannot be used."""
        reply = compat.recorddict_to_fitres(content, False)
        self.check(reply)
        return reply

    def read_metrics(self, content: Any) -> FitRes:
        """Read a reply to a request that trains nothing: it holds metrics alone."""
        reply = compat.recorddict_to_fitres(content, False)
        self.check(reply, {})
        return reply

    def check(
        self, reply: FitRes, expected: Mapping[str, Sequence[Entry] | None] | None = None
    ) -> None:
        """Raise a sentence that says why a reply cannot be used.

        Other sections than those of a training are given as `expected`.
        """
        if ERROR in reply.metrics:
            raise WireError(str(reply.metrics[ERROR]))
        expected = self.expected if expected is None else expected
        layout = str(reply.metrics.get(LAYOUT, ""))
        cuts, declared = read_layout(layout, len(reply.parameters.tensors))
        if cuts.keys() != expected.keys():
            raise WireError(
                f"its message holds {layout!r}, but this run sends {' '.join(expected)!r}"
            )
        for name, cut in cuts.items():
            if declared.get(name) != self.wire.declared.get(name):
                raise WireError(
                    f"its section {name!r} is declared as {declared.get(name)!r}, but this run"
                    f" sends {self.wire.declared.get(name)!r} (wire)"
                )
            tensors, least = reply.parameters.tensors[cut], self.least.get(name)
            check_section(name, tensors, expected[name], least, self.wire.types[name])
        metrics = {name: value for name, value in reply.metrics.items() if name != LAYOUT}
        check_declared(metrics, self.metrics)
        for name, value in metrics.items():
            check_number(name, value)
        check_examples(reply.num_examples)
        check_held_out(metrics)

    def restore(self, reply: FitRes, before: Arrays) -> FitRes:
        """Make a whole model of the differences to the one before, once they are checked."""
        if not self.wire.declared:
            return reply
        tensors = reply.parameters.tensors
        cuts, _ = read_layout(str(reply.metrics[LAYOUT]), len(tensors))
        sections = {name: decode(tensors[cut]) for name, cut in cuts.items()}
        flat, layout = pack(self.wire.restore(sections, before))
        metrics = {**reply.metrics, LAYOUT: layout}
        return replace(reply, parameters=ndarrays_to_parameters(flat), metrics=metrics)


def check_section(
    section: str,
    tensors: list[bytes],
    expected: Sequence[Entry] | None,
    least: float | None,
    types: Sequence[ShortType | None],
) -> None:
    """Raise a sentence about the first array that is not as it should be."""
    what = "the model" if section == SHARED else f"the section {section!r}"
    if expected is not None:
        if len(tensors) != len(expected):
            raise WireError(f"it sent {len(tensors)} arrays of {what}, which has {len(expected)}")
        for tensor, entry, kind in zip(tensors, expected, types, strict=True):
            held = kind.held if kind else entry.dtype or np.dtype(np.float64)
            size = entry.size * held.itemsize
            if len(tensor) > size + HEADER:
                raise WireError(
                    f"its array {entry.name!r} has {len(tensor)} bytes, but in {what} it has {size}"
                )
    types = types if expected is not None else [None] * len(tensors)
    for place, (tensor, kind) in enumerate(zip(tensors, types, strict=True)):
        array = view(tensor)
        entry = Entry(section, array.shape, None) if expected is None else expected[place]
        numbers = read_array(what, array, entry, kind)
        # Methods know which numbers cannot be: nobody makes a negative number of steps.
        if least is not None and (lowest := numbers.min(initial=least)) < least:
            raise WireError(f"its section {section!r} holds {lowest:g}, which is below {least:g}")


def read_array(what: str, array: Array, entry: Entry, kind: ShortType | None) -> Array:
    """Require an array's shape and type, and finite, plausible numbers, which are returned."""
    held = kind.held if kind else entry.dtype
    if array.shape != entry.shape or held not in (None, array.dtype):
        raise WireError(
            f"its array {entry.name!r} is {array.dtype}{array.shape}, but in {what} it is"
            f" {held or ''}{entry.shape}"
        )
    array = kind.read(array) if kind else array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise WireError(
            f"its array {entry.name!r} holds values that are not finite; its training diverged"
            " (lower lr?)"
        )
    # The absolute value of the smallest integer is negative, so both ends are compared.
    if array.max(initial=0) > LARGEST or array.min(initial=0) < -LARGEST:
        raise WireError(
            f"its array {entry.name!r} holds values above {LARGEST:g}; its training diverged"
            " (lower lr?)"
        )
    return array
