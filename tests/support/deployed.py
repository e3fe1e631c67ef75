"""Runs in the test's own process whose clients behave as deployed nodes do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedmirage.client.app import make_app
from fedmirage.common.settings.config import configure
from fedmirage.server.run import run
from tests.support.inprocess import InProcessGrid, Intercept
from tests.support.pairs import BASE

SMALL: dict[str, Any] = {**BASE, "clients": 2}


def deploy(
    out: Path,
    node: dict[str, str],
    names: Sequence[str] = (),
    intercept: Intercept | None = None,
    **settings: Any,
) -> InProcessGrid:
    """Run with clients that are deployed nodes: messages bring the configuration, as over gRPC.

    `names` are those of the sites of the first nodes.
    """
    config = configure({**SMALL, "out": str(out), "node_timeout": 0.1, **settings})
    grid = InProcessGrid(make_app(), config.clients, intercept)
    for partition, context in enumerate(grid.contexts.values()):
        context.run_config = dict(config.flat())
        context.node_config.update({"memory": str(out / f"memory-{partition}"), **node})
        if partition < len(names):
            context.node_config["name"] = names[partition]
    run(grid, config)
    return grid
