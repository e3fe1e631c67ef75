"""Nodes of a federation, as `fedmirage supernode` starts them."""

import pytest

from fedmirage.cli import app
from fedmirage.node import supernode
from fedmirage.node.supernode import Way


def read_way(*arguments: str) -> Way:
    """Return how a node with these arguments would be started; a refusal is raised."""
    ways: list[Way] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supernode, "start", ways.append)
        app(["supernode", *arguments], standalone_mode=False)
    return ways[0]
