"""Runs in the test's own process whose clients behave as deployed nodes do."""

from pathlib import Path
from typing import Any

from fedmirage.client.app import make_app
from fedmirage.common.settings.config import configure
from fedmirage.server.run import run
from tests.support.inprocess import InProcessGrid
from tests.support.pairs import BASE

SMALL: dict[str, Any] = {**BASE, "clients": 2}


def deploy(out: Path, node: dict[str, str], **settings: Any) -> InProcessGrid:
    """Run with clients that are deployed nodes: messages bring the configuration, as over gRPC."""
    config = configure({**SMALL, "out": str(out), "node_timeout": 0.1, **settings})
    grid = InProcessGrid(make_app(), config.clients)
    for partition, context in enumerate(grid.contexts.values()):
        context.run_config = dict(config.flat())
        context.node_config.update({"memory": str(out / f"memory-{partition}"), **node})
    run(grid, config)
    return grid
