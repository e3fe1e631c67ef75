"""Sends messages and collects replies until a deadline.

Over gRPC, Flower's own loop looks for replies every three seconds; this one looks more often.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable

from flwr.app import Message
from flwr.serverapp import Grid

POLL = 0.2  # seconds between two looks for replies
Replies = list[tuple[int, Message]]  # id of the node that was asked, and its reply


class WaitingGrid(Grid):
    """A grid that knows when replies arrive, so that nobody has to look for them."""

    @abstractmethod
    def await_messages(self, message_ids: Iterable[str], seconds: float) -> None:
        """Wait until the replies to all of these messages are there, but not longer than this."""


def exchange(grid: Grid, messages: list[Message], timeout: float) -> Replies:
    """Send messages and return the replies that arrive in time; silent nodes are not among them.

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
    replies: Replies = []
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            replies.append((waiting.pop(reply.metadata.reply_to_message_id), reply))
        left = deadline - time.monotonic()
        if not waiting or left < 0:
            break
        if isinstance(grid, WaitingGrid):
            grid.await_messages(list(waiting), left)
        else:
            time.sleep(POLL)
    return replies
