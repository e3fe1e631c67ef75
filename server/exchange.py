"""Messages out, replies in, until a deadline. Flower's own loop polls every three seconds over gRPC, this one more often."""

import time

from flwr.app import Message
from flwr.serverapp import Grid

POLL = 0.2  # seconds between two looks for replies


def exchange(grid: Grid, messages: list[Message], timeout: float) -> list[Message]:
    """Send messages and collect what comes back in time; who stays silent is simply not in the answer."""
    deadline = time.monotonic() + timeout
    waiting = set(grid.push_messages(messages))
    replies: list[Message] = []
    while waiting:
        arrived = list(grid.pull_messages(waiting))
        replies += arrived
        waiting -= {message.metadata.reply_to_message_id for message in arrived}
        if not waiting or time.monotonic() > deadline:
            break
        time.sleep(POLL)
    return replies
