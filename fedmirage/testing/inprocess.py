"""The inprocess runtime for tests: in the test's own process, with replies that can be changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.clientapp import ClientApp

from fedmirage.client.app import make_app
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.runtimes.grid import node_id
from fedmirage.runtimes.inprocess import LocalGrid
from fedmirage.server.run import run

__all__ = ["InProcessGrid", "node_id", "run_in_process"]

Intercept = Callable[[int, Message], Message | None]


class InProcessGrid(LocalGrid):
    """`intercept` plays a faulty client: it may change a reply, or drop it by returning None.

    Deadlines never expire: the short ones of tests are meant for faulty clients, not for a slow
    machine.
    """

    def __init__(self, app: ClientApp, nodes: int, intercept: Intercept | None = None) -> None:
        super().__init__(app, nodes)
        self.intercept = intercept
        self.alike = False  # a client that may be faulty does not answer for all
        for node in super().get_node_ids():
            self.contexts[node]  # so that a test may change them

    def get_node_ids(self) -> list[int]:
        """Return the nodes that have a context; a test may add some and take some away."""
        return list(self.contexts)

    def receive(self, node: int, reply: Message) -> Message | None:
        """Pass a reply on, through `intercept` if there is one."""
        return self.intercept(node, reply) if self.intercept else reply

    def seconds_left(self, message: Message) -> float:
        """Never run out of time."""
        return float("inf")


def run_in_process(out: Path, intercept: Intercept | None = None, **settings: Any) -> RunConfig:
    """Run a configuration to its end, with results under `out`."""
    config = configure({"out": str(out), **settings})
    app = make_app(config, Path(config.resume or config.out) / "memory")
    run(InProcessGrid(app, config.clients, intercept), config)
    return config
