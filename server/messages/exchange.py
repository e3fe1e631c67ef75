"""Messages out, replies in, until a deadline. Flower's own loop polls every three seconds over
gRPC, this one more often."""

import time

from flwr.app import Message
from flwr.serverapp import Grid

POLL = 0.2  # seconds between two looks for replies
Replies = list[tuple[int, Message]]  # with the id of the node that was asked


def exchange(grid: Grid, messages: list[Message], timeout: float) -> Replies:
    """Send messages and collect what comes back in time; who stays silent is simply not in the
    answer.

    Whose reply it is follows from the message that it answers: an error that the SuperLink writes
    for a lost node bears the SuperLink's own id. A message that nobody fetched by the deadline is
    not trained on any more.
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
        if not waiting or time.monotonic() > deadline:
            break
        time.sleep(POLL)
    return replies
