"""The tests' own runtime: server and clients in one process, messages handed over as they are. No
Ray, no gRPC, no threads."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from client.app import make_app
from common.settings.config import RunConfig, configure
from server.run import run


class InProcessGrid(Grid):
    """Flower's Grid over a dictionary. `intercept` may change a reply, or drop it by returning
    None: a faulty client."""

    def __init__(
        self,
        app: ClientApp,
        nodes: int,
        intercept: Callable[[int, Message], Message | None] | None = None,
    ) -> None:
        self.app, self.intercept = app, intercept
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

    @property
    def run(self) -> Any:
        return None

    def set_run(self, run: Any) -> None:
        pass

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._deliver(message) for message in messages]

    def _deliver(self, message: Message) -> str:
        number = str(uuid4())
        message.metadata.__dict__["_message_id"] = number
        node = message.metadata.dst_node_id
        try:
            # as after a wire: nobody shares an object
            reply = self.app(deepcopy(message), self.contexts[node])
        except Exception as error:  # as Flower does: a client's exception becomes an error message
            reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = node
        kept = self.intercept(node, reply) if self.intercept else reply
        if kept is not None:
            self.replies[number] = kept
        return number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.replies.pop(number) for number in list(message_ids) if number in self.replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def node_id(partition: int) -> int:
    """Ids that do not sort like partitions, as Flower's random ones do not."""
    return 10_000 - 7 * partition


def run_in_process(
    out: Path, intercept: Callable[[int, Message], Message | None] | None = None, **settings: Any
) -> RunConfig:
    """Run a configuration to its end, with results under `out`."""
    config = configure({"out": str(out), **settings})
    app = make_app(config, Path(config.resume or config.out) / "memory")
    run(InProcessGrid(app, config.clients, intercept), config)
    return config
